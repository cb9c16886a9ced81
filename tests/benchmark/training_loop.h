#pragma once

#include <cstdint>
#include <memory>

#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/optim/optimizer.h"
#include "attune/train/training_step.h"
#include "configuration.h"

namespace attune::benchmarks {

// What the trainer does in one step, without what happens around it (drawing examples, evaluation,
// logs): take a batch, forward, backward, sum and norm of gradients, clipping, AdamW.
class TrainingLoop final {
 public:
  // The configuration and the pool must outlive it.
  TrainingLoop(const Configuration& configuration, ThreadPool& pool);

  // Throws Error where the loss is not finite: a step that is not one cannot be timed.
  // profile: where the time goes to, begun with shards(); null: it is not measured.
  void step(bool statistics, RunProfile* profile = nullptr);
  [[nodiscard]] std::int64_t shards() const { return training_step_.shards(); }

 private:
  const Configuration& configuration_;
  ThreadPool& pool_;
  Batch examples_;
  Transformer model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingStep training_step_;
  std::int64_t steps_ = 0;
};

struct MemoryUse {
  double system_allocations = 0;  // a step, after the second step
  std::int64_t peak_bytes = 0;    // of the buffer pool: parameters, moments, activations, gradients
};
// Runs a few steps of a loop of its own. No other thread may use the buffer pool meanwhile.
[[nodiscard]] MemoryUse measure_memory(const Configuration& configuration, ThreadPool& pool);

}  // namespace attune::benchmarks
