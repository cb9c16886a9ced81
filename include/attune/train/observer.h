#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/core/attention_statistics.h"
#include "attune/train/activation_statistics.h"
#include "attune/train/evaluation.h"
#include "attune/train/run_config.h"

namespace attune {

enum class RunStatus : std::uint8_t { done, target, budget, interrupted, diverged, stalled };
[[nodiscard]] std::string_view to_string(RunStatus status);

// What observers learn before the first step.
struct RunStart {
  const RunConfig& config;
  std::string directory;
  std::string example;          // one training example as people read it
  std::int64_t parameters = 0;  // numbers in the model
  std::int64_t first_step = 0;  // beyond 0: resumed
  std::int64_t threads = 1;
  double chance = 0;  // accuracy of a model that learned nothing
  bool has_answers = true;
  std::string blas_kernel;
};

// One parameter in one update. An RMS is the root of the mean square over its elements.
struct ParameterRecord {
  std::string name;
  double gradient_rms = 0;  // before clipping
  double weight_rms = 0;    // before the update
  double update_rms = 0;    // of the weights after it less those before, weight decay included
};

// One update: the batch at step t and what it did to the gradients.
struct UpdateRecord {
  double train_loss = 0;  // nats per scored token
  double train_accuracy = 0;
  double lr = 0;
  double grad_norm = 0;  // before clipping
  bool clipped = false;
  bool skipped = false;                // not finite, or nothing scored
  std::vector<std::string> nonfinite;  // parameters whose gradient is not finite
  double step_ms = 0;
  double tokens_per_second = 0;
  double clipped_share = 0;  // of the gradient's length, that clipping took away; 0: not clipped
  std::vector<ParameterRecord> parameters;  // where asked for and updated
};

// Step t: the evaluation of the state after t updates, where one was due, and the update that
// followed it, unless it is the end of the run.
struct StepRecord {
  std::int64_t step = 0;
  double elapsed_seconds = 0;
  bool logged = false;            // a line is due (log_interval, an evaluation, the end)
  bool attention_logged = false;  // a record of the training batch's attention is due
  std::optional<Evaluation> train_evaluation;
  std::optional<Evaluation> validation;
  std::optional<UpdateRecord> update;
  const AttentionStatistics* attention = nullptr;     // of the update's batch, where measured
  const ActivationStatistics* activations = nullptr;  // of the update's batch, where asked for
};

struct RunSummary {
  RunStatus status = RunStatus::done;
  std::int64_t steps = 0;
  std::optional<double> train_loss;
  std::optional<Evaluation> validation;  // the last
  double best_val_loss = 0;
  double elapsed_seconds = 0;
  std::int64_t parameters = 0;
  std::string parameter_hash;
  std::int64_t threads = 1;
  std::string blas;     // OpenBLAS: version, how it was built, kernel
  std::string message;  // one line where the run failed
};

// Sees a run from outside: logs, progress, summaries. The trainer knows observers by this interface
// only.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_start(const RunStart& start) { static_cast<void>(start); }
  // The state of this step was evaluated; its update is still to come, and its on_step() after
  // that.
  virtual void on_evaluation(std::int64_t step, const Transformer& model) {
    static_cast<void>(step);
    static_cast<void>(model);
  }
  // Once a step, in order, after its update.
  virtual void on_step(const StepRecord& record) { static_cast<void>(record); }
  // Worth telling a person: a parameter that the loss does not reach, a skipped step.
  virtual void on_note(std::string_view line) { static_cast<void>(line); }
  // What was written so far must reach the disk: a checkpoint is about to be renamed into place.
  virtual void flush() {}
  virtual void on_end(const RunSummary& summary) { static_cast<void>(summary); }
};

}  // namespace attune
