#pragma once

#include "attune/array/array.h"

// Over the last axis; x has at least one axis. In the backward functions y is what the forward
// returned, dy = dloss/dy.
namespace attune::kernels {

// y_j = e^(x_j - m) / sum_k e^(x_k - m), m = max x. A row of -inf gives 0; NaN spreads over its
// row.
[[nodiscard]] Array softmax(const Array& x);
// The same over the keys whose keep is not 0; exactly 0 elsewhere, whatever x holds there. keep has
// x's dtype and broadcasts to x's shape.
[[nodiscard]] Array masked_softmax(const Array& x, const Array& keep);
// dx_j = y_j (dy_j - sum_k y_k dy_k). Where y is 0, dx is 0 and dy is not used: a masked key may
// hold NaN there.
[[nodiscard]] Array softmax_backward(const Array& y, const Array& dy);

// y_j = x_j - m - ln sum_k e^(x_k - m). A row of -inf stays -inf.
[[nodiscard]] Array log_softmax(const Array& x);
// dx_j = dy_j - e^(y_j) sum_k dy_k; 0 for a row of -inf.
[[nodiscard]] Array log_softmax_backward(const Array& y, const Array& dy);

}  // namespace attune::kernels
