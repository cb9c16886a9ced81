#pragma once

#include <cstdint>
#include <span>

#include "attune/array/array.h"

namespace attune::kernels {

// table: [rows, ...], indices of `shape` -> shape + [...]; y_i = table[index_i]. Indices lie in [0,
// rows).
[[nodiscard]] Array gather_rows(const Array& table, std::span<const std::int32_t> indices,
                                const Shape& shape);
// The same with scale and sum: y_i = scale table[index_i] + added, whose elements repeat over y;
// null: nothing is added. Rounded as a product and a sum.
[[nodiscard]] Array embedding(const Array& table, std::span<const std::int32_t> indices,
                              const Shape& shape, double scale, const Array& added);
// dtable[index_i] += scale dy_i, in the order of i: repeated indices add up, the same way in every
// run.
void gather_rows_backward(const Array& dy, std::span<const std::int32_t> indices, Array& dtable,
                          double scale = 1);
// shape + the table's axes but the first.
[[nodiscard]] Shape gathered_shape(const Shape& table, const Shape& shape);

}  // namespace attune::kernels
