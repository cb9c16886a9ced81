#pragma once

#include <vector>

#include "attune/array/array.h"

namespace attune::kernels {

// Of a finite float64 matrix [rows, columns], descending: min(rows, columns) of them.
[[nodiscard]] std::vector<double> singular_values(const Array& x);

}  // namespace attune::kernels
