#include "attune/observe/logs.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "attune/core/version.h"
#include "attune/observe/entropy_range.h"
#include "observe/head_json.h"
#include "observe/strict_json.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

// What is not finite is told even where no line is due.
bool is_finite(const UpdateRecord& update) {
  return update.nonfinite.empty() && std::isfinite(update.train_loss) &&
         std::isfinite(update.grad_norm);
}

void add_validation(Json& line, const Evaluation& validation, bool has_answers) {
  line["val_loss"] = validation.loss_nats();
  line["val_accuracy"] = validation.accuracy();
  if (has_answers) line["val_exact"] = validation.exact_share();
}

void add_update(Json& line, const UpdateRecord& update) {
  line["train_loss"] = update.train_loss;
  line["train_accuracy"] = update.train_accuracy;
  line["lr"] = update.lr;
  line["grad_norm"] = update.grad_norm;
  line["clipped"] = update.clipped;
  if (update.skipped) line["skipped"] = true;
  line["tokens_per_second"] = update.tokens_per_second;
  line["step_ms"] = update.step_ms;
}

void write_heads(LineLog& log, std::int64_t step, Split split,
                 const AttentionStatistics& statistics) {
  std::string lines;
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    for (int head = 0; head < statistics.heads(); ++head) {
      Json line;
      line["step"] = step;
      line["split"] = to_string(split);
      line["layer"] = layer;
      line["head"] = head;
      add_head(line, statistics.at(layer, head));
      name_nonfinite(line);
      lines.append(strict_text(line)).push_back('\n');
    }
  }
  log.write_bytes(lines);
}

}  // namespace

void MetricsLog::on_step(const StepRecord& record) {
  if (!record.logged && !(record.update && !is_finite(*record.update))) return;
  Json line;
  line["step"] = record.step;
  if (record.train_evaluation) line["train_eval_loss"] = record.train_evaluation->loss_nats();
  if (record.validation) add_validation(line, *record.validation, has_answers_);
  if (record.update) add_update(line, *record.update);
  if (const auto entropy = entropy_range(record)) {
    const std::string name = entropy->shares ? "share_entropy" : "entropy";
    line[name + "_mean"] = entropy->mean;
    line[name + "_min"] = entropy->min;
    line[name + "_max"] = entropy->max;
  }
  line["elapsed_seconds"] = record.elapsed_seconds;
  name_nonfinite(line, record.update ? record.update->nonfinite : std::vector<std::string>());
  log_.write(strict_text(line));
}

void AttentionLog::on_step(const StepRecord& record) {
  if (record.validation) {
    write_heads(log_, record.step, Split::validation, record.validation->attention);
  }
  if (record.attention_logged && record.attention) {
    write_heads(log_, record.step, Split::train, *record.attention);
  }
}

void SummaryFile::on_end(const RunSummary& summary) {
  Json json;
  json["status"] = to_string(summary.status);
  json["steps"] = summary.steps;
  if (summary.train_loss) json["train_loss"] = *summary.train_loss;
  if (summary.validation) {
    add_validation(json, *summary.validation, has_answers_);
    json["best_val_loss"] = summary.best_val_loss;
  }
  json["elapsed_seconds"] = summary.elapsed_seconds;
  json["parameters"] = summary.parameters;
  json["parameter_hash"] = summary.parameter_hash;
  json["threads"] = summary.threads;
  json["blas"] = summary.blas;
  if (!summary.message.empty()) json["message"] = summary.message;
  json["command_line"] = command_line_;
  json["version"] = kVersion;
  name_nonfinite(json);
  write_file_atomically(path_, strict_text(json, 2) + "\n");
}

}  // namespace attune
