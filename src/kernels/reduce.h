#pragma once

#include "attune/array/array.h"

// Reductions over one axis, counted from 0; the axis stays with extent 1. Sums accumulate in
// double.
namespace attune::kernels {

// factor * the sum
[[nodiscard]] Array sum(const Array& x, std::size_t axis, double factor);
// -inf over an empty axis; NaN propagates.
[[nodiscard]] Array max(const Array& x, std::size_t axis);
// dy goes to the first element that equals y (that is NaN, if y is).
[[nodiscard]] Array max_backward(const Array& dy, const Array& x, const Array& y, std::size_t axis);
// y_i = sum_{j <= i} x_j, or j >= i in reverse. Its backward is the same in the other direction.
[[nodiscard]] Array cumsum(const Array& x, std::size_t axis, bool reverse);
// y = m + ln sum e^(x - m), m = max x; -inf where all x are.
[[nodiscard]] Array logsumexp(const Array& x, std::size_t axis);
// dx = dy e^(x - y); 0 where y = -inf
[[nodiscard]] Array logsumexp_backward(const Array& dy, const Array& x, const Array& y);

}  // namespace attune::kernels
