#pragma once

#include <cstdint>
#include <vector>

#include "attune/autodiff/gradients.h"
#include "attune/core/attention_statistics.h"
#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

class GradientObserver;

// The gradient of one batch, on the calling thread, without dropout.
struct BatchGradient {
  double loss_nats = 0;     // mean over scored tokens
  std::int64_t scored = 0;  // tokens
  // By parameter index, of the loss summed over scored tokens; zeros where the loss reaches none.
  std::vector<Array> of_sum;
};
struct BatchWatchers {
  Hooks* hooks = nullptr;
  GradientObserver* gradients = nullptr;
  AttentionStatistics* statistics = nullptr;
};
// Throws ConfigError where nothing is scored.
[[nodiscard]] BatchGradient batch_gradient(const Transformer& model, const Batch& batch,
                                           const BatchWatchers& watchers = {});

// Sum of squares of all elements, in double.
[[nodiscard]] double sum_of_squares(const Array& array);
// sqrt of the mean square; 0 of an empty array.
[[nodiscard]] double root_mean_square(const Array& array);

}  // namespace attune
