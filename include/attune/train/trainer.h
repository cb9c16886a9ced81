#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/optim/optimizer.h"
#include "attune/task/task.h"
#include "attune/train/checkpoint.h"
#include "attune/train/observer.h"
#include "attune/train/run_config.h"
#include "attune/train/run_directory.h"
#include "attune/train/run_profile.h"
#include "attune/train/training_step.h"

namespace attune {

// The model's configuration for a task: vocabulary and, where --block-size was not given, context
// follow from it. Throws ConfigError where the context is shorter than the task's examples.
[[nodiscard]] TransformerConfig model_config(const RunConfig& config, const Task& task);
// What the configuration says of one step; who looks on is for the caller to add.
[[nodiscard]] TrainingStep::Options step_options(const RunConfig& config, std::int64_t step);

// Makes a training run out of its parts. Step t is the state after t updates; a run makes max_iters
// updates. At each step, in this order: checkpoint (where due), evaluation (where due), the best
// checkpoint (where this is it), update, observers. So resuming at the checkpoint of step t repeats
// everything that step t's log lines say.
class Trainer final {
 public:
  // `config` must be resolved; `task` must outlive the trainer. Throws ConfigError as Transformer
  // does.
  Trainer(const RunConfig& config, const Task& task,
          std::int64_t most_parameters = std::numeric_limits<std::int64_t>::max());

  [[nodiscard]] Transformer& model() { return model_; }
  [[nodiscard]] std::int64_t threads() const { return pool_.threads(); }

  // Continues from a checkpoint: parameters, optimizer, step. All or nothing; throws IoError.
  void resume(const Checkpoint& checkpoint);

  // Where the time of the runs from here on goes to; null, the default: it is not measured, at no
  // cost. Must outlive the runs. Changes no bit of them.
  void set_profile(RunProfile* profile) { profile_ = profile; }
  // Who sees every training step from inside (train/step_observer.h); must outlive the runs.
  void add_step_observer(StepObserver* observer) { step_observers_.push_back(observer); }

  // Trains to the end, a target, a time budget or until `interrupted` says so, which is asked once
  // a step. Checkpoints go into the directory; null: none are written. `config_toml` is stored in
  // them.
  [[nodiscard]] RunSummary run(const RunDirectory* directory, const std::string& config_toml,
                               std::span<TrainObserver* const> observers,
                               const std::function<bool()>& interrupted = {});

 private:
  struct Progress {
    std::int64_t step = 0;
    std::int64_t saved_step = -1;  // of the checkpoint that this run continues; -1: none
    std::int64_t skipped = 0;
    // The first evaluation of an unbroken row of them at the unigram entropy; -1: none.
    std::int64_t stalled_since = -1;
    double best_val_loss = 0;
    double elapsed_before = 0;  // seconds of the runs that this one continues
  };
  class Loop;

  RunConfig config_;
  const Task& task_;
  ThreadPool pool_;
  BatchSource batches_;
  Transformer model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingStep training_step_;
  Progress progress_;
  RunProfile* profile_ = nullptr;
  std::vector<StepObserver*> step_observers_;
};

}  // namespace attune
