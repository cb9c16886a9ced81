#pragma once

#include <cstdint>
#include <span>

#include "attune/autodiff/var.h"
#include "attune/core/target.h"

namespace attune {

struct CrossEntropy {
  Var loss_sum;          // [], in nats: the sum over scored rows, not the mean
  double nats;           // the same number before it was rounded to the logits' dtype
  std::int64_t scored;   // rows whose target is not kIgnore
  std::int64_t correct;  // scored rows whose largest logit (the first of equals) is the target
};
// logits [..., classes], targets one a row. With label smoothing e the target distribution is (1 -
// e) on the target plus e / classes on every class (Szegedy et al. 2016). Stable for any finite
// logits. Sums are accumulated in double. Throws ValueError "cross_entropy: target 7 of row 3 is
// outside [0, 5)". row_correct, where given, has one flag a row: whether the target was met.
[[nodiscard]] CrossEntropy cross_entropy(const Var& logits, std::span<const std::int32_t> targets,
                                         double label_smoothing = 0,
                                         std::span<std::uint8_t> row_correct = {});

// y as it is. On the way back, weight * loss is part of what is minimised: y gets the gradient that
// came, loss [] gets `weight`, once. So a layer can have a loss of its own while it returns one
// value; the weight is in units of what backward() begins with. Nothing where y is a constant.
[[nodiscard]] Var attach_loss(const Var& y, const Var& loss, double weight);

}  // namespace attune
