#pragma once

#include "attune/array/array.h"

namespace attune::kernels {

// The orthonormal factor Q of a float64 matrix [rows, columns], rows >= columns, of full rank: x =
// Q R with a positive diagonal of R, which makes Q unique. Q of a matrix of independent normal
// numbers is uniformly (Haar) distributed (Mezzadri 2007).
[[nodiscard]] Array orthonormal_columns(const Array& x);

}  // namespace attune::kernels
