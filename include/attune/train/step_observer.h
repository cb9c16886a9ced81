#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "attune/autodiff/tape.h"
#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

struct StepResult;

// A part of a training step that runs on a tape of its own.
struct StepPlace {
  std::int64_t micro_batch = 0;
  std::int64_t shard = 0;
};

// What a training step was made of; valid during the call that gets it.
struct StepView {
  std::int64_t step;
  std::span<const Batch> micro_batches;
  const Transformer& model;
  const StepResult& result;
};

// Sees the training steps of a run from inside: every value and gradient, shard by shard. Two
// shards may run at a time, so each has watchers of its own; what they saw is put together in the
// order of micro-batches, then shards, and does not depend on threads.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Before a step, on the calling thread.
  virtual void begin(std::int64_t micro_batches, std::int64_t shards) {
    static_cast<void>(micro_batches), static_cast<void>(shards);
  }
  // Who watches one tape; asked before its forward pass, on its thread. Null: nobody.
  [[nodiscard]] virtual ValueObserver* values(StepPlace place) {
    static_cast<void>(place);
    return nullptr;
  }
  [[nodiscard]] virtual GradientObserver* gradients(StepPlace place) {
    static_cast<void>(place);
    return nullptr;
  }
  // The gradient of the step is there and no weight has changed yet. Returns why the run must end
  // here, in one line; empty: it goes on.
  [[nodiscard]] virtual std::string verdict(const StepView& view) {
    static_cast<void>(view);
    return "";
  }
};

}  // namespace attune
