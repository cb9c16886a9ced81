#pragma once

#include <cstdint>
#include <memory>

#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/optim/optimizer.h"
#include "attune/train/run_config.h"
#include "attune/train/training_step.h"

namespace attune {

// A training run without a directory, logs or evaluation, whose updates a study makes one by one,
// each with its own rate; on the calling thread. With the rates of a schedule it is, update for
// update, what `attune train` does with the same configuration.
class ShortTraining final {
 public:
  // `config` must be resolved; `task` must outlive it.
  ShortTraining(const RunConfig& config, const Task& task);

  struct Update {
    double loss_nats = 0;      // of the batch, before the update
    double gradient_norm = 0;  // before clipping
  };
  // Where loss or gradient is not finite, nothing is updated.
  Update step(double learning_rate);

  [[nodiscard]] Transformer& model() { return model_; }
  [[nodiscard]] const BatchSource& batches() const { return batches_; }
  [[nodiscard]] std::int64_t steps() const { return step_; }

 private:
  RunConfig config_;
  ThreadPool pool_;
  BatchSource batches_;
  Transformer model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingStep training_step_;
  std::int64_t step_ = 0;
};

}  // namespace attune
