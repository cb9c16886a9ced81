#include "attune/observe/anomaly_tracer.h"

#include <utility>

#include <fmt/format.h>

#include "attune/observe/anomaly_file.h"
#include "attune/observe/text_table.h"

namespace attune {
namespace {

std::string size_text(const std::optional<double>& largest) {
  return largest ? fmt::format("{:.3g}", *largest) : "";
}

// How a table shows an anomaly: values, or the gradients of values.
class Table final {
 public:
  Table(const Anomaly& anomaly, const AnomalyTrace* float64)
      : anomaly_(anomaly), float64_(float64), table_(columns(float64 != nullptr)) {}

  std::string text() {
    const bool backward = anomaly_.kind == Anomaly::Kind::backward;
    for (const TracedValue& value : anomaly_.outputs) add("output: ", value, backward);
    for (const TracedValue& value : anomaly_.inputs) {
      add("input: ", value, false);
      if (backward) add("gradient of input: ", value, true);
    }
    const char* const chain = backward ? "read by: " : "made from: ";
    for (const TracedValue& value : anomaly_.chain) add(chain, value, backward);
    return table_.text();
  }

 private:
  static std::vector<std::string> columns(bool two) {
    if (!two) return {"", "shape", "largest"};
    return {"", "shape", "largest float32", "float64"};
  }

  void add(const std::string& role, const TracedValue& value, bool gradient) {
    std::string name = role + value.maker;
    if (!value.path.empty()) name += " in " + value.path;
    if (gradient && !role.starts_with("gradient")) name += ", its gradient";
    const std::string largest = size_text(gradient ? value.largest_gradient : value.largest);
    if (value.slot < 0 || (gradient && largest.empty())) return;  // nobody saw it
    // The gradient of the anomaly's input is the one that is not finite, not that input's value.
    const bool is_here = gradient == (anomaly_.kind == Anomaly::Kind::backward);
    const bool is_wrong = is_here && !value.nonfinite.empty();
    std::vector<std::string> cells = {
        name, to_string(value.shape),
        is_wrong ? value.nonfinite.substr(0, value.nonfinite.find_first_of(" ,")) : largest};
    if (float64_) {
      const AnomalyTrace::Seen seen = float64_->seen(value.slot, value.maker);
      cells.push_back(size_text(gradient ? seen.largest_gradient : seen.largest));
    }
    table_.add(std::move(cells));
  }

  const Anomaly& anomaly_;
  const AnomalyTrace* float64_;
  TextTable table_;
};

SavedStep saved(const StepView& view, const StepAnomaly& found, std::string config_toml,
                std::vector<std::string> vocabulary) {
  SavedStep step{.step = view.step,
                 .config_toml = std::move(config_toml),
                 .vocabulary = std::move(vocabulary),
                 .report = anomaly_report(found),
                 .micro_batches = {view.micro_batches.begin(), view.micro_batches.end()},
                 .parameters = {}};
  for (const Parameter& parameter : view.model.parameters())
    step.parameters.emplace_back(parameter.name(), parameter.value());
  return step;
}

}  // namespace

AnomalyTracer::AnomalyTracer(std::filesystem::path file, std::string config_toml,
                             std::vector<std::string> vocabulary)
    : file_(std::move(file)),
      config_toml_(std::move(config_toml)),
      vocabulary_(std::move(vocabulary)) {}
AnomalyTracer::~AnomalyTracer() = default;

void AnomalyTracer::begin(std::int64_t micro_batches, std::int64_t shards) {
  shards_ = shards;
  for (const auto& trace : traces_) trace->clear();
  while (std::ssize(traces_) < micro_batches * shards)
    traces_.push_back(std::make_unique<AnomalyTrace>());
}

const AnomalyTrace& AnomalyTracer::trace(StepPlace place) const {
  return *traces_.at(static_cast<std::size_t>(place.micro_batch * shards_ + place.shard));
}
ValueObserver* AnomalyTracer::values(StepPlace place) {
  return traces_[static_cast<std::size_t>(place.micro_batch * shards_ + place.shard)].get();
}
GradientObserver* AnomalyTracer::gradients(StepPlace place) {
  return traces_[static_cast<std::size_t>(place.micro_batch * shards_ + place.shard)].get();
}

std::string AnomalyTracer::verdict(const StepView& view) {
  found_.reset();
  for (std::size_t i = 0; i < traces_.size() && !found_; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (traces_[i]->anomaly())
      found_ = {view.step, {index / shards_, index % shards_}, *traces_[i]->anomaly()};
  }
  if (!found_) return "";
  if (!file_.empty()) save_step(file_, saved(view, *found_, config_toml_, vocabulary_));
  return fmt::format("diverged at step {}: {}", view.step, to_string(found_->anomaly));
}

std::string anomaly_report(const StepAnomaly& found) {
  return fmt::format("step {}, micro-batch {}, shard {}: {}\n{}", found.step,
                     found.place.micro_batch, found.place.shard, to_string(found.anomaly),
                     anomaly_table(found.anomaly));
}

std::string anomaly_table(const Anomaly& anomaly, const AnomalyTrace* float64) {
  return Table(anomaly, float64).text();
}

}  // namespace attune
