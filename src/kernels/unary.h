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
// dx = x > 0 ? dy : 0. NaN stays NaN.
[[nodiscard]] Array relu(const Array& x);
[[nodiscard]] Array relu_backward(const Array& dy, const Array& y);

// Functions whose slope f'(x) falls out of computing y: it is saved in place of x, and dx = dy
// slope.
struct ValueAndSlope {
  Array value;
  Array slope;
};
[[nodiscard]] Array softplus(const Array& x);
[[nodiscard]] ValueAndSlope softplus_with_slope(const Array& x);
[[nodiscard]] Array gelu(const Array& x);
[[nodiscard]] ValueAndSlope gelu_with_slope(const Array& x);
[[nodiscard]] Array gelu_tanh(const Array& x);
[[nodiscard]] ValueAndSlope gelu_tanh_with_slope(const Array& x);
[[nodiscard]] Array silu(const Array& x);
[[nodiscard]] ValueAndSlope silu_with_slope(const Array& x);

}  // namespace attune::kernels
