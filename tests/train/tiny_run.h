#pragma once

#include <unistd.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attune/core/file.h"
#include "attune/train/safetensors.h"
#include "attune/train/trainer.h"

// Small training runs and what can be seen of them.
namespace attune {

// A small model of a small task, with dropout, warm-up, and evaluations in between.
[[nodiscard]] inline RunConfig tiny(const std::string& task = "copy") {
  RunConfig config = RunConfig::defaults_for(task);
  config.task.max_length = 3;
  config.model.n_layer = 1;
  config.model.n_head = 2;
  config.model.n_embd = 8;
  config.model.dropout = 0.1;
  config.batch_size = 6;
  config.max_iters = 10;
  config.schedule.warmup_iters = 3;
  config.eval_interval = 4;
  config.eval_iters = 2;
  config.log_interval = 1;
  config.attention_interval = 3;
  config.threads = 1;
  return config;
}

// SGD without anything that bends the gradient: w -= lr g.
[[nodiscard]] inline RunConfig plain_descent() {
  RunConfig config = tiny();
  config.optimizer.kind = "sgd";
  config.optimizer.momentum = 0;
  config.optimizer.weight_decay = 0;
  config.schedule.shape = "constant";
  config.schedule.warmup_iters = 0;
  config.schedule.lr = 0.5;
  config.grad_clip = 0;
  config.dtype = DType::float64;
  return config;
}

[[nodiscard]] inline std::string statistics_text(const AttentionStatistics& statistics) {
  std::string text;
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      text += fmt::format(" {:a} {:a} {:a} {}", one.entropy_sum, one.log_keys_sum,
                          one.score_max_abs, one.rows_valid);
    }
  }
  return text;
}

[[nodiscard]] inline std::string evaluation_text(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return "none";
  return fmt::format("{:a} {} {} {}{}", evaluation->loss_sum, evaluation->scored,
                     evaluation->correct, evaluation->exact,
                     statistics_text(evaluation->attention));
}

// Every bit of a record but its times.
[[nodiscard]] inline std::string text_of(const StepRecord& record) {
  std::string text =
      fmt::format("{} {} {} | {} | {} |", record.step, record.logged, record.attention_logged,
                  evaluation_text(record.train_evaluation), evaluation_text(record.validation));
  if (record.attention) text += statistics_text(*record.attention);
  if (!record.update) return text;
  const UpdateRecord& update = *record.update;
  text += fmt::format("| {:a} {:a} {:a} {:a} {} {:a} {}", update.train_loss, update.train_accuracy,
                      update.lr, update.grad_norm, update.clipped, update.clipped_share,
                      update.skipped);
  for (const ParameterRecord& parameter : update.parameters) {
    text += fmt::format(" {} {:a} {:a} {:a}", parameter.name, parameter.gradient_rms,
                        parameter.weight_rms, parameter.update_rms);
  }
  if (!record.activations) return text;
  for (const ActivationStatistics::Place& place : record.activations->places()) {
    text += fmt::format(" {} {} {:a} {}", to_string(place.point), place.layer, place.square_sum,
                        place.dead_share(0.01).value_or(-1));
  }
  return text;
}

class Recorder final : public TrainObserver {
 public:
  void on_start(const RunStart& start) override { first_step = start.first_step; }
  void on_step(const StepRecord& record) override {
    lines.push_back(text_of(record));
    records.push_back(record);
    records.back().attention = nullptr;
    records.back().activations = nullptr;
    if (at_step) at_step(record);
  }
  void on_note(std::string_view line) override { notes.emplace_back(line); }
  void on_end(const RunSummary& summary) override { ended.push_back(summary.status); }

  std::int64_t first_step = -1;
  std::vector<std::string> lines;
  std::vector<StepRecord> records;
  std::vector<std::string> notes;
  std::vector<RunStatus> ended;
  std::function<void(const StepRecord&)> at_step;
};

class Directory final {
 public:
  Directory()
      : path_(std::filesystem::path(testing::TempDir()) /
              fmt::format("attune-trainer-{}-{}", getpid(), ++count())) {
    std::filesystem::remove_all(path_);
    directory_.emplace(RunDirectory::create(path_, "copy"));
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const RunDirectory& operator*() const { return *directory_; }
  [[nodiscard]] Checkpoint checkpoint() const { return Checkpoint(directory_->checkpoint()); }
  // Everything in the checkpoint but the time.
  [[nodiscard]] TensorFile saved() const { return saved(directory_->checkpoint()); }
  [[nodiscard]] static TensorFile saved(const std::filesystem::path& path) {
    TensorFile file = decode_safetensors(read_file(path), path.string());
    file.metadata.erase("counter.elapsed_seconds");
    return file;
  }

 private:
  static int& count() {
    static int made = 0;
    return made;
  }
  std::filesystem::path path_;
  std::optional<RunDirectory> directory_;
};

inline void expect_same_files(const TensorFile& actual, const TensorFile& expected) {
  EXPECT_EQ(actual.metadata, expected.metadata);
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
  for (std::size_t i = 0; i < actual.tensors.size(); ++i) {
    EXPECT_EQ(actual.tensors[i].first, expected.tensors[i].first);
    EXPECT_EQ(actual.tensors[i].second.to_vector(), expected.tensors[i].second.to_vector())
        << actual.tensors[i].first;
  }
}

// A run from its beginning, seen by a recorder.
struct TinyRun {
  explicit TinyRun(const RunConfig& wanted, const RunDirectory* directory = nullptr)
      : config(wanted.resolved()),
        task(make_task(config.task)),
        trainer(config, *task),
        directory_(directory) {}

  RunSummary operator()(const std::function<bool()>& interrupted = {}) {
    TrainObserver* const observers[] = {&recorder};
    return trainer.run(directory_, "config", observers, interrupted);
  }

  RunConfig config;
  std::unique_ptr<Task> task;
  Trainer trainer;
  Recorder recorder;

 private:
  const RunDirectory* directory_;
};

}  // namespace attune
