#pragma once

#include "attune/array/array.h"

// Products with a weight that all rows share. Narrow layers go through the panels of small_gemm.h,
// which leave BLAS behind there, wide ones through BLAS.
namespace attune::kernels {

// x: [..., in], weight: [out, in], bias: [out] or null -> y = x weight^T + bias: [..., out]
[[nodiscard]] Array linear(const Array& x, const Array& weight, const Array& bias);
// dx += dy weight. Where the place holds no sum yet, its contents do not matter; so below.
void linear_backward_x(const Array& dy, const Array& weight, Array& dx, bool holds_sum);
// dweight += dy^T x
void linear_backward_weight(const Array& dy, const Array& x, Array& dweight, bool holds_sum);

}  // namespace attune::kernels
