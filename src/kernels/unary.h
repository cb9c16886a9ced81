#pragma once

#include "attune/array/array.h"

// Element-wise functions of one argument, y = f(x). Each backward maps dy = 0 to dx = 0, also where
// the slope is infinite or NaN: a branch that where() did not select takes no part.
namespace attune::kernels {

// dx = dy y
[[nodiscard]] Array exp(const Array& x);
// dx = dy / x
[[nodiscard]] Array log(const Array& x);
// dx = dy / 2y
[[nodiscard]] Array sqrt(const Array& x);
[[nodiscard]] Array sqrt_backward(const Array& dy, const Array& y);
// dx = 2 x dy
[[nodiscard]] Array square(const Array& x);
[[nodiscard]] Array square_backward(const Array& dy, const Array& x);
// dx = sign(x) dy, sign(0) = 0
[[nodiscard]] Array abs(const Array& x);
[[nodiscard]] Array abs_backward(const Array& dy, const Array& x);
// dx = dy cos x;  dx = -dy sin x
[[nodiscard]] Array sin(const Array& x);
[[nodiscard]] Array cos(const Array& x);
// dx = dy (1 - y^2)
[[nodiscard]] Array tanh(const Array& x);
[[nodiscard]] Array tanh_backward(const Array& dy, const Array& y);
// dx = dy y (1 - y)
[[nodiscard]] Array sigmoid(const Array& x);
[[nodiscard]] Array sigmoid_backward(const Array& dy, const Array& y);
// dx = x > 0 ? dy : 0. NaN stays NaN. y takes the storage of x where nobody else holds it.
[[nodiscard]] Array relu(Array x);
[[nodiscard]] Array relu_backward(const Array& dy, const Array& y);

// Functions whose slope f'(x) falls out of computing y: it is saved in place of x, and dx = dy
// slope. The value takes the storage of x where nobody else holds it.
struct ValueAndSlope {
  Array value;
  Array slope;
};
[[nodiscard]] Array softplus(Array x);
[[nodiscard]] ValueAndSlope softplus_with_slope(Array x);
[[nodiscard]] Array gelu(Array x);
[[nodiscard]] ValueAndSlope gelu_with_slope(Array x);
[[nodiscard]] Array gelu_tanh(Array x);
[[nodiscard]] ValueAndSlope gelu_tanh_with_slope(Array x);
[[nodiscard]] Array silu(Array x);
[[nodiscard]] ValueAndSlope silu_with_slope(Array x);

// The way back through y = f(x + bias), in one pass, from dloss/dy [..., columns] and what f saved
// of x + bias: dx = dy slope or relu's dx, and dbias [columns] = sum over rows of dx, in double;
// null unless asked for. dx takes the storage of what was saved where nobody else holds it.
struct BiasedGradients {
  Array dx;
  Array dbias;
};
[[nodiscard]] BiasedGradients biased_backward(const Array& dy, Array slope, bool with_bias);
[[nodiscard]] BiasedGradients biased_relu_backward(const Array& dy, Array y, bool with_bias);

// With s = sigmoid(gate), of one shape with up:
//   y = gate s up,   dup = dy gate s,   dgate = dy up (s + gate s (1 - s))
[[nodiscard]] Array swiglu(const Array& gate, const Array& up);
struct Swiglu {
  Array y;
  Array sigmoid;
};
[[nodiscard]] Swiglu swiglu_with_sigmoid(const Array& gate, const Array& up);
struct SwigluGradients {
  Array dgate;  // in the storage of the sigmoid where nobody else holds it
  Array dup;    // in that of up, likewise
};
[[nodiscard]] SwigluGradients swiglu_backward(const Array& dy, const Array& gate, Array up,
                                              Array sigmoid);

}  // namespace attune::kernels
