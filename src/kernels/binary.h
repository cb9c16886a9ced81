#pragma once

#include "attune/array/array.h"

// Element-wise arithmetic with broadcasting. Operands have one dtype. Throws ShapeError "add: .. do
// not broadcast".
namespace attune::kernels {

[[nodiscard]] Array add(const Array& a, const Array& b);
[[nodiscard]] Array subtract(const Array& a, const Array& b);
[[nodiscard]] Array multiply(const Array& a, const Array& b);
[[nodiscard]] Array divide(const Array& a, const Array& b);
// NaN propagates.
[[nodiscard]] Array maximum(const Array& a, const Array& b);
[[nodiscard]] Array minimum(const Array& a, const Array& b);
// 1 where maximum (minimum) takes a, 0 where it takes b.
[[nodiscard]] Array maximum_takes_first(const Array& a, const Array& b);
[[nodiscard]] Array minimum_takes_first(const Array& a, const Array& b);

[[nodiscard]] Array add(const Array& x, double term);
[[nodiscard]] Array multiply(const Array& x, double factor);
[[nodiscard]] Array power(const Array& x, double exponent);
// dx = dy exponent x^(exponent - 1)
[[nodiscard]] Array power_backward(const Array& dy, const Array& x, double exponent);

// A step of the chain rule: dy times a slope, but 0 wherever dy is 0, also where the slope is
// infinite or NaN: a branch that where() did not select takes no part.
[[nodiscard]] Array chain(const Array& dy, const Array& slope);
// The same with a divisor: dy / divisor.
[[nodiscard]] Array chain_divided(const Array& dy, const Array& divisor);

// condition ? a : b; whatever is not 0 counts as true.
[[nodiscard]] Array select(const Array& condition, const Array& a, const Array& b);
// condition ? dy : 0, and condition ? 0 : dy
[[nodiscard]] Array keep_where(const Array& condition, const Array& dy);
[[nodiscard]] Array keep_where_not(const Array& condition, const Array& dy);

}  // namespace attune::kernels
