#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/observe/report_run.h"
#include "attune/train/options.h"
#include "attune/train/run_config.h"
#include "observe/report/json_lines.h"

namespace attune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMostStep = std::int64_t{1} << 53;
constexpr std::int64_t kMostIndex = 1 << 20;
constexpr std::size_t kMostSeries = 4096;  // heads, layers or parameters of a log
constexpr std::size_t kMostAlarms = 1000;

constexpr const char* kMetrics[] = {"train_loss",
                                    "train_eval_loss",
                                    "val_loss",
                                    "train_accuracy",
                                    "val_accuracy",
                                    "val_exact",
                                    "lr",
                                    "grad_norm",
                                    "step_ms",
                                    "entropy_mean",
                                    "entropy_min",
                                    "entropy_max",
                                    "clipped",
                                    "tokens_per_second",
                                    "elapsed_seconds"};

// Reads one log after the other into a run.
class RunReader final {
 public:
  RunReader(fs::path directory, ReportRun& run) : directory_(std::move(directory)), run_(run) {}

  void read() {
    read_config();
    log("metrics.jsonl", "losses, accuracy, learning rate", &RunReader::take_metrics);
    log("attention.jsonl", "entropy of each head", &RunReader::take_attention);
    choose_split();
    read_summary();
    log("alarms.jsonl", "alarms, where there is one", &RunReader::take_alarm);
    log("gradients.jsonl", "gradients by layer", &RunReader::take_gradients, "--log-grads");
    log("activations.jsonl", "activations by layer", &RunReader::take_activations,
        "--log-activations");
    log("heads.jsonl", "scores of head detectors", &RunReader::take_detectors, "--log-heads");
  }

 private:
  using Take = bool (RunReader::*)(const json&);

  ReportRun::File& file(const char* name, const char* holds, const char* option = "") {
    ReportRun::File& file = run_.files.emplace_back();
    file.name = name;
    file.holds = holds;
    file.option = option;
    return file;
  }

  void log(const char* name, const char* holds, Take take, const char* option = "") {
    last_step_ = -1;
    read_json_lines(directory_ / name, file(name, holds, option),
                    [&](const json& line) { return has_step(line) && (this->*take)(line); });
  }

  // The step of a line, which no line before it may have passed.
  bool has_step(const json& line) {
    const std::optional<std::int64_t> step = index_in(line, "step", kMostStep);
    if (!step || static_cast<double>(*step) < last_step_) return false;
    last_step_ = step_ = static_cast<double>(*step);
    return true;
  }

  template <class Key>
  bool add(std::map<Key, StepSeries>& series, const Key& key, std::optional<double> value) const {
    if (!value || (series.size() >= kMostSeries && !series.contains(key))) return false;
    StepSeries& one = series[key];
    if (!one.empty() && one.steps.back() >= step_) return false;
    one.add(step_, *value);
    return true;
  }

  bool take_metrics(const json& line) {
    bool used = false;
    for (const std::string name : kMetrics) {
      std::optional<double> value = number_in(line, name.c_str());
      if (!value && name.starts_with("entropy_")) {
        value = number_in(line, ("share_" + name).c_str());
        if (value) run_.shares = true;
      }
      if (add(run_.metrics, name, value)) used = true;
    }
    return used;
  }

  static std::optional<HeadIndex> head_of(const json& line) {
    const auto layer = index_in(line, "layer", kMostIndex);
    const auto head = index_in(line, "head", kMostIndex);
    if (!layer || !head) return std::nullopt;
    return HeadIndex{*layer, *head};
  }

  bool take_attention(const json& line) {
    const auto head = head_of(line);
    const std::string split = text_in(line, "split");
    if (!head || (split != "train" && split != "val")) return false;
    std::optional<double> entropy = number_in(line, "entropy_norm");
    if (!entropy && (entropy = number_in(line, "share_entropy_norm"))) run_.shares = true;
    if (entropy && (*entropy < -0.01 || *entropy > 1.01)) return false;
    return add(split == "train" ? run_.entropy : validation_, *head, entropy);
  }

  void choose_split() {
    run_.entropy_split = run_.entropy.empty() ? "val" : "train";
    if (run_.entropy.empty()) run_.entropy = std::move(validation_);
  }

  bool take_alarm(const json& line) {
    ReportRun::Alarm alarm;
    alarm.step = step_;
    alarm.kind = text_in(line, "kind");
    alarm.message = text_in(line, "message");
    alarm.layer = index_in(line, "layer", kMostIndex);
    alarm.head = index_in(line, "head", kMostIndex);
    alarm.value = number_in(line, "value");
    if (alarm.kind.empty() && alarm.message.empty()) return false;
    if (run_.alarms.size() < kMostAlarms) run_.alarms.push_back(std::move(alarm));
    return true;
  }

  bool take_gradients(const json& line) {
    const std::string parameter = text_in(line, "parameter");
    if (parameter.empty() || parameter.size() > 1000) return false;
    const bool used = add(run_.gradient_rms, parameter, number_in(line, "gradient_rms"));
    return add(run_.update_ratio, parameter, number_in(line, "update_weight_ratio")) || used;
  }

  bool take_activations(const json& line) {
    const auto layer = index_in(line, "layer", kMostIndex);
    const std::string point = text_in(line, "point");
    if (!layer || point.empty()) return point == "embedding";  // which is of no layer
    if (point == "residual_post") return add(run_.residual_rms, *layer, number_in(line, "rms"));
    if (point == "ffn_hidden") add(run_.dead_share, *layer, number_in(line, "dead_share"));
    return true;
  }

  bool take_detectors(const json& line) {
    const auto head = head_of(line);
    if (!head) return false;
    const bool previous = add(run_.previous_token, *head, number_in(line, "previous_token"));
    const bool duplicate = add(run_.duplicate_token, *head, number_in(line, "duplicate_token"));
    return add(run_.induction, *head, number_in(line, "induction")) || previous || duplicate;
  }

  void read_summary() {
    ReportRun::File& about = file("summary.json", "how the run ended");
    std::error_code ignored;
    about.found = fs::exists(directory_ / about.name, ignored);
    if (!about.found) return;
    json summary;
    try {
      summary = json::parse(read_file(directory_ / about.name), nullptr, false);
    } catch (const IoError&) {
    }
    if (!summary.is_object()) {
      about.problem = "holds no JSON object";
      return;
    }
    const auto finite = [&](const char* field) {
      const std::optional<double> value = number_in(summary, field);
      return value && std::isfinite(*value) ? value : std::nullopt;
    };
    run_.summary = {.status = text_in(summary, "status"),
                    .message = text_in(summary, "message"),
                    .command_line = text_in(summary, "command_line"),
                    .version = text_in(summary, "version"),
                    .steps = finite("steps"),
                    .best_val_loss = finite("best_val_loss"),
                    .elapsed_seconds = finite("elapsed_seconds"),
                    .parameters = finite("parameters"),
                    .threads = finite("threads")};
  }

  void read_config() {
    ReportRun::File& about = file("config.toml", "everything that decides the run");
    std::error_code ignored;
    const fs::path path = directory_ / about.name;
    about.found = fs::exists(path, ignored);
    if (!about.found) return;
    try {
      const std::string toml = read_file(path);
      RunConfig config = RunConfig::defaults_for(task_in_toml(toml, about.name));
      apply_toml(config, toml, about.name);
      run_.settings.push_back({"Task", "task", config.task.name});
      for (const Option& option : option_table()) {
        if (option.in_config) {
          run_.settings.push_back({option.group, option.name, option.get(config)});
        }
      }
    } catch (const Error& error) {
      about.problem = printable(error.what());
    }
  }

  fs::path directory_;
  ReportRun& run_;
  HeadSeries validation_;
  double step_ = 0;
  double last_step_ = -1;
};

}  // namespace

const StepSeries* ReportRun::metric(const std::string& field) const {
  const auto found = metrics.find(field);
  return found == metrics.end() ? nullptr : &found->second;
}

ReportRun read_report_run(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) {
    throw IoError(fmt::format("{}: there is no such run", directory.string()));
  }
  if (!fs::is_directory(directory, ignored)) {
    throw IoError(fmt::format("{}: is no directory of a run", directory.string()));
  }
  ReportRun run;
  run.name = directory.string();
  RunReader(directory, run).read();
  const bool holds_any = std::ranges::any_of(run.files, &ReportRun::File::found) ||
                         fs::exists(directory / "checkpoint.safetensors", ignored);
  if (!holds_any) throw IoError(fmt::format("{}: holds no file of a run", directory.string()));
  return run;
}

}  // namespace attune
