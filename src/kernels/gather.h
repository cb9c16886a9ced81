#pragma once

#include <cstdint>
#include <span>

#include "attune/array/array.h"

namespace attune::kernels {

// table: [rows, ...], indices of `shape` -> shape + [...]; y_i = table[index_i]. Indices lie in [0,
// rows).
[[nodiscard]] Array gather_rows(const Array& table, std::span<const std::int32_t> indices,
                                const Shape& shape);
// dtable[index_i] += dy_i, in the order of i: repeated indices add up, the same way in every run.
void gather_rows_backward(const Array& dy, std::span<const std::int32_t> indices, Array& dtable);

}  // namespace attune::kernels
