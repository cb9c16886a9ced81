#include "train/update.h"

#include <cmath>

#include <fmt/format.h>

#include "kernels/elementwise.h"

namespace attune {
namespace {

UpdateRecord record_of(const StepResult& result) {
  UpdateRecord record;
  record.train_loss = result.loss_nats;
  record.train_accuracy =
      result.scored ? static_cast<double>(result.correct) / static_cast<double>(result.scored) : 0;
  record.grad_norm = result.gradient_norm;
  return record;
}

}  // namespace

Update Updater::operator()(std::int64_t step, const StepResult& result, const std::string& verdict,
                           bool each_parameter, RunProfile* profile) {
  Update update;
  update.record = record_of(result);
  UpdateRecord& record = update.record;
  record.lr = learning_rate(config_.schedule, step);
  if (result.scored == 0) {
    record.skipped = true;
    update.reason = fmt::format("step {}: no scored position in the batch, no update", step);
    return update;
  }
  const bool is_finite = std::isfinite(result.loss_nats) && std::isfinite(result.gradient_norm);
  if (!verdict.empty() || !is_finite) {
    refuse(step, result, verdict, update);
    return update;
  }
  double scale = 1;
  if (config_.grad_clip > 0 && result.gradient_norm > config_.grad_clip) {
    scale = config_.grad_clip / result.gradient_norm;
    record.clipped = true;
    record.clipped_share = 1 - scale;
  }
  const RunProfile::Timer timer(profile, Phase::optimizer);
  UpdateStatistics statistics;
  optimizer_.step(model_.parameters(), result.gradients, scale, record.lr, pool_,
                  each_parameter ? &statistics : nullptr);
  if (each_parameter) record.parameters = records_of(result, statistics);
  return update;
}

// A loss or gradient that is not finite, or a verdict: weights and moments stay as they are.
void Updater::refuse(std::int64_t step, const StepResult& result, const std::string& verdict,
                     Update& update) const {
  UpdateRecord& record = update.record;
  record.skipped = true;
  for (const Parameter& parameter : model_.parameters()) {
    const Array& gradient = result.gradients[static_cast<std::size_t>(parameter.index())];
    if (!gradient.is_null() && !kernels::all_finite(gradient)) {
      record.nonfinite.push_back(parameter.name());
    }
  }
  if (!verdict.empty()) {
    update.diverged = true;
    update.reason = verdict;
    return;
  }
  const std::string what = record.nonfinite.empty()
                               ? fmt::format("the loss is {}", result.loss_nats)
                               : fmt::format("the gradient of {} is not finite (loss {})",
                                             record.nonfinite.front(), result.loss_nats);
  update.diverged = !config_.skip_nonfinite;
  update.reason = update.diverged ? fmt::format("diverged at step {}: {}", step, what)
                                  : fmt::format("step {}: {}; no update", step, what);
}

std::vector<ParameterRecord> Updater::records_of(const StepResult& result,
                                                 const UpdateStatistics& statistics) const {
  std::vector<ParameterRecord> records;
  for (const Parameter& parameter : model_.parameters()) {
    const auto i = static_cast<std::size_t>(parameter.index());
    const auto size = static_cast<double>(parameter.value().size());
    if (result.gradients[i].is_null() || parameter.is_frozen() || size == 0) continue;
    records.push_back({parameter.name(), std::sqrt(result.gradient_squares[i] / size),
                       std::sqrt(statistics.weight_squares[i] / size),
                       std::sqrt(statistics.update_squares[i] / size)});
  }
  return records;
}

}  // namespace attune
