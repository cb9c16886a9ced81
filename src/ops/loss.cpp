#include "attune/ops/loss.h"

#include <utility>

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "kernels/cross_entropy.h"

namespace attune {
namespace {

void check(const Var& logits, std::span<const std::int32_t> targets, double label_smoothing,
           std::span<const std::uint8_t> row_correct) {
  if (logits.shape().rank() == 0)
    throw ShapeError("cross_entropy: logits [] is a scalar, it needs [..., classes]");
  const auto rows = static_cast<std::size_t>(logits.shape().rows());
  const std::int64_t classes = logits.shape().last();
  if (targets.size() != rows)
    throw ShapeError(fmt::format("cross_entropy: logits {} has {} rows but there are {} targets",
                                 to_string(logits.shape()), rows, targets.size()));
  if (!row_correct.empty() && row_correct.size() != rows)
    throw ShapeError(fmt::format("cross_entropy: {} flags for {} rows", row_correct.size(), rows));
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw ValueError(
        fmt::format("cross_entropy: label_smoothing {} is outside [0, 1]", label_smoothing));
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int32_t target = targets[row];
    if (target != kIgnore && (target < 0 || target >= classes))
      throw ValueError(fmt::format("cross_entropy: target {} of row {} is outside [0, {})", target,
                                   row, classes));
  }
}

}  // namespace

CrossEntropy cross_entropy(const Var& logits, std::span<const std::int32_t> targets,
                           double label_smoothing, std::span<std::uint8_t> row_correct) {
  check(logits, targets, label_smoothing, row_correct);
  kernels::CrossEntropySums sums = kernels::cross_entropy(logits.value(), targets, label_smoothing,
                                                          logits.tape() != nullptr, row_correct);
  // The gradient is finished but for its factor; the tape runs this once, so it may be spent.
  Var loss_sum =
      record("cross_entropy", {logits}, Array::scalar(sums.loss, logits.dtype()),
             [gradient = std::move(sums.gradient)](const Array& dy, InputGradients& dx) mutable {
               dx.add(0, kernels::cross_entropy_backward(std::move(gradient), dy.item()));
             });
  return {std::move(loss_sum), sums.loss, sums.scored, sums.correct};
}

Var attach_loss(const Var& y, const Var& loss, double weight) {
  if (loss.shape().rank() != 0)
    throw ShapeError(fmt::format("attach_loss: loss {} is no scalar", to_string(loss.shape())));
  if (y.tape() == nullptr) return y;
  return record("attach_loss", {y, loss}, y.value(),
                [weight, dtype = loss.dtype()](const Array& dy, InputGradients& dx) {
                  dx.add(0, dy);
                  dx.add(1, Array::scalar(weight, dtype));
                });
}

}  // namespace attune
