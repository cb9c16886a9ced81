#include "attune/ops/matmul.h"

#include <utility>

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "ops/check.h"

namespace attune {
namespace {

Shape leading_axes(const Shape& shape) {
  return Shape(shape.extents().first(static_cast<std::size_t>(shape.rank() - 2)));
}

std::string described(const char* name, const Shape& shape, bool transposed) {
  return fmt::format("{} {}{}", name, to_string(shape), transposed ? " transposed" : "");
}

void require_rank_2(const char* name, const Shape& shape) {
  if (shape.rank() < 2) {
    throw ShapeError(fmt::format("matmul: {} {} has rank {}, expected 2 or more", name,
                                 to_string(shape), shape.rank()));
  }
}

kernels::MatmulPlan plan_matmul(const Shape& a, const Shape& b, bool transpose_a,
                                bool transpose_b) {
  require_rank_2("a", a);
  require_rank_2("b", b);
  kernels::MatmulPlan plan{.transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .m = a[transpose_a ? -1 : -2],
                           .n = b[transpose_b ? -2 : -1],
                           .k = a[transpose_a ? -2 : -1],
                           .batch = {},
                           .batch_a = leading_axes(a),
                           .batch_b = leading_axes(b)};
  const std::int64_t rows_b = b[transpose_b ? -1 : -2];
  if (plan.k != rows_b) {
    throw ShapeError(fmt::format("matmul: {} has {} columns but {} has {} rows",
                                 described("a", a, transpose_a), plan.k,
                                 described("b", b, transpose_b), rows_b));
  }
  try {
    plan.batch = broadcast("matmul", plan.batch_a, plan.batch_b);
  } catch (const ShapeError&) {
    throw ShapeError(fmt::format("matmul: the leading axes of a {} and b {} do not broadcast",
                                 to_string(a), to_string(b)));
  }
  return plan;
}

void check_linear(const Var& x, const Var& weight, const Var& bias) {
  if (weight.shape().rank() != 2) {
    throw ShapeError(fmt::format("linear: weight {} has rank {}, expected [out, in]",
                                 to_string(weight.shape()), weight.shape().rank()));
  }
  if (x.shape().rank() == 0) {
    throw ShapeError(fmt::format("linear: x [] is a scalar, expected [..., {}] for weight {}",
                                 weight.shape()[1], to_string(weight.shape())));
  }
  if (x.shape().last() != weight.shape()[1]) {
    throw ShapeError(fmt::format("linear: x {} has {} columns but weight {} takes {}",
                                 to_string(x.shape()), x.shape().last(), to_string(weight.shape()),
                                 weight.shape()[1]));
  }
  require_same_dtype("linear", x.value(), weight.value());
  if (bias.is_null()) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("linear: bias {}, expected [{}] for weight {}",
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  require_same_dtype("linear", x.value(), bias.value());
}

}  // namespace

Var matmul(const Var& a, const Var& b, Transpose transpose_a, Transpose transpose_b) {
  require_same_dtype("matmul", a.value(), b.value());
  const kernels::MatmulPlan plan = plan_matmul(a.shape(), b.shape(), transpose_a == Transpose::yes,
                                               transpose_b == Transpose::yes);
  return record("matmul", {a, b}, kernels::matmul(plan, a.value(), b.value()),
                [plan, a = saved_for(b, a.value()), b = saved_for(a, b.value())](
                    const Array& dy, InputGradients& dx) {
                  if (dx.needs(0)) {
                    const auto [da, holds_sum] = dx.accumulate(0);
                    kernels::matmul_backward_a(plan, dy, b, da, holds_sum);
                  }
                  if (dx.needs(1)) {
                    const auto [db, holds_sum] = dx.accumulate(1);
                    kernels::matmul_backward_b(plan, dy, a, db, holds_sum);
                  }
                });
}

Var linear(const Var& x, const Var& weight, const Var& bias) {
  check_linear(x, weight, bias);
  Array y = kernels::linear(x.value(), weight.value(), bias.value());
  auto backward = [x = saved_for(weight, x.value()), weight = saved_for(x, weight.value())](
                      const Array& dy, InputGradients& dx) {
    if (dx.needs(0)) {
      const auto [place, holds_sum] = dx.accumulate(0);
      kernels::linear_backward_x(dy, weight, place, holds_sum);
    }
    if (dx.needs(1)) {
      const auto [place, holds_sum] = dx.accumulate(1);
      kernels::linear_backward_weight(dy, x, place, holds_sum);
    }
  };
  if (bias.is_null()) return record("linear", {x, weight}, y, std::move(backward));
  return record("linear", {x, weight, bias}, y,
                [backward = std::move(backward)](const Array& dy, InputGradients& dx) {
                  backward(dy, dx);
                  // dbias = sum over rows of dy
                  if (dx.needs(2)) dx.add(2, kernels::sum_to(dy, Shape{dy.shape().last()}));
                });
}

}  // namespace attune
