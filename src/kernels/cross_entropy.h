#pragma once

#include <cstdint>
#include <span>

#include "attune/array/array.h"

namespace attune::kernels {

struct CrossEntropySums {
  double loss = 0;           // nats, over scored rows
  std::int64_t scored = 0;   // rows whose target is not kIgnore
  std::int64_t correct = 0;  // scored rows whose first largest logit is the target
  Array gradient;            // dloss/dlogits, of the logits' shape; null unless asked for
};
// logits [..., classes], one target a row, each kIgnore or in [0, classes). With p =
// softmax(logits), t the target, and the target distribution q_j = (1 - e) [j = t] + e / classes:
//   loss = sum_j -q_j ln p_j = ln Z - sum_j q_j (x_j - m),   m = max x,  Z = sum_j e^(x_j - m)
//   dloss/dx_j = p_j - q_j
// row_correct is empty or has one flag a row.
[[nodiscard]] CrossEntropySums cross_entropy(const Array& logits,
                                             std::span<const std::int32_t> targets,
                                             double label_smoothing, bool with_gradient,
                                             std::span<std::uint8_t> row_correct = {});
// dlogits = dloss * gradient, in the storage of `gradient`, which nobody else holds.
[[nodiscard]] Array cross_entropy_backward(Array gradient, double dloss);

}  // namespace attune::kernels
