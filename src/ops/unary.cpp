#include "attune/ops/unary.h"

#include <utility>

#include "attune/autodiff/tape.h"
#include "kernels/binary.h"
#include "kernels/unary.h"
#include "ops/check.h"

namespace attune {

Var exp(const Var& x) {
  Array y = kernels::exp(x.value());
  return record("exp", {x}, y,
                [y](const Array& dy, InputGradients& dx) { dx.add(0, kernels::chain(dy, y)); });
}

Var log(const Var& x) {
  return record("log", {x}, kernels::log(x.value()),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::chain_divided(dy, x));
                });
}

Var sqrt(const Var& x) {
  Array y = kernels::sqrt(x.value());
  return record("sqrt", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::sqrt_backward(dy, y));
  });
}

Var square(const Var& x) {
  return record("square", {x}, kernels::square(x.value()),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::square_backward(dy, x));
                });
}

Var abs(const Var& x) {
  return record("abs", {x}, kernels::abs(x.value()),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::abs_backward(dy, x));
                });
}

Var sin(const Var& x) {
  return record("sin", {x}, kernels::sin(x.value()),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::chain(dy, kernels::cos(x)));
                });
}

Var cos(const Var& x) {
  return record("cos", {x}, kernels::cos(x.value()),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::multiply(kernels::chain(dy, kernels::sin(x)), -1));
                });
}

Var tanh(const Var& x) {
  Array y = kernels::tanh(x.value());
  return record("tanh", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::tanh_backward(dy, y));
  });
}

Var sigmoid(const Var& x) {
  Array y = kernels::sigmoid(x.value());
  return record("sigmoid", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::sigmoid_backward(dy, y));
  });
}

Var relu(const Var& x) {
  Array y = kernels::relu(x.value());
  return record("relu", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::relu_backward(dy, y));
  });
}

namespace {

// Saves the slope that falls out of the value; a constant computes the value alone.
Var with_slope(OpName name, const Var& x, Array (*value)(Array),
               kernels::ValueAndSlope (*both)(Array)) {
  if (x.tape() == nullptr) return value(x.value());
  const auto [y, slope] = both(x.value());
  return record(name, {x}, y, [slope = slope](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::chain(dy, slope));
  });
}

}  // namespace

Var softplus(const Var& x) {
  return with_slope("softplus", x, kernels::softplus, kernels::softplus_with_slope);
}

Var gelu(const Var& x) { return with_slope("gelu", x, kernels::gelu, kernels::gelu_with_slope); }

Var gelu_tanh(const Var& x) {
  return with_slope("gelu_tanh", x, kernels::gelu_tanh, kernels::gelu_tanh_with_slope);
}

Var silu(const Var& x) { return with_slope("silu", x, kernels::silu, kernels::silu_with_slope); }

Var swiglu(const Var& gate, const Var& up) {
  require_same_dtype("swiglu", gate.value(), up.value());
  if (gate.shape() != up.shape()) {
    throw ShapeError("swiglu: gate is " + to_string(gate.shape()) + ", up " +
                     to_string(up.shape()) + ", expected one shape");
  }
  if (gate.tape() == nullptr && up.tape() == nullptr) {
    return kernels::swiglu(gate.value(), up.value());
  }
  auto [y, sigmoid] = kernels::swiglu_with_sigmoid(gate.value(), up.value());
  return record("swiglu", {gate, up}, y,
                [gate = gate.value(), up = up.value(), sigmoid = std::move(sigmoid)](
                    const Array& dy, InputGradients& dx) mutable {
                  auto gradients =
                      kernels::swiglu_backward(dy, gate, std::move(up), std::move(sigmoid));
                  dx.add(0, std::move(gradients.dgate));
                  dx.add(1, std::move(gradients.dup));
                });
}

}  // namespace attune
