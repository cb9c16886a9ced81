#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "attune/task/task.h"

namespace attune {

// The batches of a run, step by step. While a step computes, the threads that are done with their
// shards draw those of the next one. A batch is a function of its step, so it does not matter when
// and by whom it is drawn; and what cannot be drawn ahead is drawn, or fails, at its own step.
class BatchAhead final {
 public:
  // Draws from `source` batches of `examples`, `micro_batches` a step, of steps below `steps`.
  BatchAhead(const BatchSource& source, std::int64_t examples, std::int64_t micro_batches,
             std::int64_t steps);

  // The micro-batches of a step, drawn ahead or now. Throws what drawing throws.
  [[nodiscard]] std::vector<Batch> take(std::int64_t step);

  // Makes room for a step's batches, nothing where it lies beyond the run. What was drawn ahead and
  // not taken is forgotten.
  void begin(std::int64_t step);
  // Draws a shard's part of a micro-batch of that step. Each part once, from any thread.
  void draw(std::int64_t micro_batch, std::int64_t shard, std::int64_t shards) noexcept;

 private:
  [[nodiscard]] Batch part(std::int64_t step, std::int64_t micro_batch, std::int64_t begin,
                           std::int64_t end) const;

  const BatchSource& source_;
  std::int64_t examples_;
  std::int64_t micro_batches_;
  std::int64_t steps_;
  std::int64_t step_ = -1;               // that is drawn ahead; -1: none
  std::vector<Batch> ahead_;             // its micro-batches
  std::atomic<std::int64_t> drawn_ = 0;  // examples of them
};

}  // namespace attune
