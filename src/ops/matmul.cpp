#include "attune/ops/matmul.h"

#include <utility>

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/matmul.h"
#include "kernels/unary.h"
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

void check_linear(const char* operation, const Var& x, const Var& weight, const Var& bias) {
  if (weight.shape().rank() != 2) {
    throw ShapeError(fmt::format("{}: weight {} has rank {}, expected [out, in]", operation,
                                 to_string(weight.shape()), weight.shape().rank()));
  }
  if (x.shape().rank() == 0) {
    throw ShapeError(fmt::format("{}: x [] is a scalar, expected [..., {}] for weight {}",
                                 operation, weight.shape()[1], to_string(weight.shape())));
  }
  if (x.shape().last() != weight.shape()[1]) {
    throw ShapeError(fmt::format("{}: x {} has {} columns but weight {} takes {}", operation,
                                 to_string(x.shape()), x.shape().last(), to_string(weight.shape()),
                                 weight.shape()[1]));
  }
  require_same_dtype(operation, x.value(), weight.value());
  if (bias.is_null()) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("{}: bias {}, expected [{}] for weight {}", operation,
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  require_same_dtype(operation, x.value(), bias.value());
}

// The way back through a product x weight^T: dx = dy weight, dweight = dy^T x.
auto product_backward(const Var& x, const Var& weight) {
  return [x = saved_for(weight, x.value()), weight = saved_for(x, weight.value())](
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
}

// An activation as linear_activation needs it. relu saves its value, which the next layer keeps
// anyway; the others their slope.
struct Activation {
  OpName name;
  Array (*value)(Array x);
  kernels::ValueAndSlope (*value_and_saved)(Array x);
  kernels::BiasedGradients (*backward)(const Array& dy, Array saved, bool with_bias);
};

Activation activation_of(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::relu:
      return {"linear_relu", kernels::relu,
              [](Array x) {
                const Array y = kernels::relu(std::move(x));
                return kernels::ValueAndSlope{y, y};
              },
              kernels::biased_relu_backward};
    case ActivationFunction::gelu:
      return {"linear_gelu", kernels::gelu, kernels::gelu_with_slope, kernels::biased_backward};
    case ActivationFunction::gelu_tanh:
      return {"linear_gelu_tanh", kernels::gelu_tanh, kernels::gelu_tanh_with_slope,
              kernels::biased_backward};
    case ActivationFunction::silu:
      return {"linear_silu", kernels::silu, kernels::silu_with_slope, kernels::biased_backward};
  }
  throw InternalError("linear_activation: unknown activation");
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
  check_linear("linear", x, weight, bias);
  Array y = kernels::linear(x.value(), weight.value(), bias.value());
  if (bias.is_null()) return record("linear", {x, weight}, y, product_backward(x, weight));
  return record("linear", {x, weight, bias}, y,
                [product = product_backward(x, weight)](const Array& dy, InputGradients& dx) {
                  product(dy, dx);
                  // dbias = sum over rows of dy
                  if (dx.needs(2)) dx.add(2, kernels::sum_to(dy, Shape{dy.shape().last()}));
                });
}

Var linear_activation(const Var& x, const Var& weight, const Var& bias,
                      ActivationFunction function) {
  check_linear("linear_activation", x, weight, bias);
  const Activation activation = activation_of(function);
  Array product = kernels::linear(x.value(), weight.value(), bias.value());
  if (x.tape() == nullptr && weight.tape() == nullptr && bias.tape() == nullptr) {
    return activation.value(std::move(product));
  }
  auto [y, saved] = activation.value_and_saved(std::move(product));
  return record(
      activation.name, {x, weight, bias}, y,
      [saved = std::move(saved), backward = activation.backward,
       product = product_backward(x, weight)](const Array& dy, InputGradients& dx) mutable {
        auto gradients = backward(dy, std::move(saved), dx.needs(2));
        product(gradients.dx, dx);
        if (dx.needs(2)) dx.add(2, std::move(gradients.dbias));
      });
}

}  // namespace attune
