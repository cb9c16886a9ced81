#include "attune/observe/alarm_log.h"

#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "observe/strict_json.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

HeadReading reading_of(const nlohmann::json& line) {
  HeadReading reading{line.at("layer"), line.at("head")};
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto found = line.find(name);
    if (found == line.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  reading.score_max_abs = number("score_max_abs").value_or(0);
  if (line.value("rows_valid", 0) > 0) reading.entropy_norm = number("entropy_norm");
  return reading;
}

// Shows the watch the training records of a log before `first_step`.
void show_again(EntropyWatch& watch, const std::filesystem::path& path, std::int64_t first_step) {
  std::istringstream lines(read_file(path));
  std::vector<HeadReading> heads;
  std::int64_t step = -1;
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    if (line.at("split") != "train" || line.at("step") >= first_step) continue;
    if (line.at("step") != step && step >= 0) {
      static_cast<void>(watch.see(step, heads));
      heads.clear();
    }
    step = line.at("step");
    heads.push_back(reading_of(line));
  }
  if (!heads.empty()) static_cast<void>(watch.see(step, heads));
}

Json json_of(const Alarm& alarm, const std::string& suspects) {
  Json line{{"step", alarm.step}, {"kind", alarm.kind}, {"layer", alarm.layer}};
  if (alarm.head) line["head"] = *alarm.head;
  line["value"] = alarm.value;
  line["message"] = alarm.message + "; suspects: " + suspects;
  name_nonfinite(line);
  return line;
}

}  // namespace

void AlarmLog::on_start(const RunStart& start) {
  watch_.emplace(start.config);
  if (start.first_step == 0 || !std::filesystem::exists(attention_)) return;
  try {
    show_again(*watch_, attention_, start.first_step);
  } catch (const nlohmann::json::exception&) {
    throw IoError(
        fmt::format("{}: a line is not as this program writes them, expected the records "
                    "of the run that is resumed",
                    attention_.string()));
  }
}

void AlarmLog::on_step(const StepRecord& record) {
  if (!watch_ || !record.attention_logged || !record.attention) return;
  const std::vector<Alarm> alarms = watch_->see(record.step, readings_of(*record.attention));
  for (const Alarm& alarm : alarms) {
    if (!log_) log_.emplace(path_);
    log_->write(strict_text(json_of(alarm, watch_->suspects())));
    told_.on_note(fmt::format("alarm at step {}: {}", alarm.step, alarm.message));
  }
  if (!alarms.empty()) told_.on_note("suspects of these alarms: " + watch_->suspects());
}

}  // namespace attune
