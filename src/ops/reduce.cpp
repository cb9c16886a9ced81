#include "attune/ops/reduce.h"

#include <array>
#include <span>
#include <string>

#include "attune/autodiff/tape.h"
#include "kernels/binary.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "kernels/shaping.h"
#include "ops/check.h"

namespace attune {
namespace {

// The shape without an axis, or with extent 1 there.
Shape without(const Shape& shape, std::size_t axis, bool keep) {
  if (keep) return shape.with(static_cast<int>(axis), 1);
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::size_t rank = 0;
  for (std::size_t i = 0; i < shape.extents().size(); ++i) {
    if (i != axis) extents[rank++] = shape.extents()[i];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), rank));
}

double reciprocal(std::int64_t count) { return count == 0 ? 0 : 1 / static_cast<double>(count); }

// y = factor sum x, dx = factor dy
Var scaled_sum(OpName name, const Var& x, double factor) {
  const Shape shape = x.shape();
  return record(name, {x}, Array::scalar(factor * kernels::sum_all(x.value()), x.dtype()),
                [shape, factor](const Array& dy, InputGradients& dx) {
                  dx.add(0, Array::full(shape, factor * dy.item(), dy.dtype()));
                });
}

Var scaled_sum(OpName name, const Var& x, std::size_t axis, bool keep, double factor) {
  const Shape shape = x.shape();
  return record(
      name, {x}, kernels::sum(x.value(), axis, factor).reshaped(without(shape, axis, keep)),
      [shape, axis, factor](const Array& dy, InputGradients& dx) {
        const Array kept = dy.reshaped(without(shape, axis, true));
        dx.add(0,
               kernels::broadcast_to(factor == 1 ? kept : kernels::multiply(kept, factor), shape));
      });
}

}  // namespace

Var sum(const Var& x) { return scaled_sum("sum", x, 1); }

Var mean(const Var& x) { return scaled_sum("mean", x, reciprocal(x.shape().size())); }

Var sum(const Var& x, int axis, bool keep) {
  return scaled_sum("sum", x, require_axis("sum", x.shape(), axis), keep, 1);
}

Var mean(const Var& x, int axis, bool keep) {
  const std::size_t at = require_axis("mean", x.shape(), axis);
  return scaled_sum("mean", x, at, keep, reciprocal(x.shape().extents()[at]));
}

Var max(const Var& x, int axis, bool keep) {
  const std::size_t at = require_axis("max", x.shape(), axis);
  if (x.shape().extents()[at] == 0) {
    throw ShapeError("max: axis " + std::to_string(axis) + " of " + to_string(x.shape()) +
                     " is empty");
  }
  Array y = kernels::max(x.value(), at).reshaped(without(x.shape(), at, keep));
  return record("max", {x}, y, [x = x.value(), y, at](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::max_backward(dy, x, y, at));
  });
}

// dx_j = sum_{i >= j} dy_i
Var cumsum(const Var& x, int axis, bool reverse) {
  const std::size_t at = require_axis("cumsum", x.shape(), axis);
  return record("cumsum", {x}, kernels::cumsum(x.value(), at, reverse),
                [at, reverse](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::cumsum(dy, at, !reverse));
                });
}

Var logsumexp(const Var& x, int axis, bool keep) {
  const std::size_t at = require_axis("logsumexp", x.shape(), axis);
  Array y = kernels::logsumexp(x.value(), at);
  return record("logsumexp", {x}, y.reshaped(without(x.shape(), at, keep)),
                [x = x.value(), y](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::logsumexp_backward(dy.reshaped(y.shape()), x, y));
                });
}

}  // namespace attune
