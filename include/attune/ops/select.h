#pragma once

#include <cstdint>
#include <span>

#include "attune/autodiff/var.h"

namespace attune {

// condition ? a : b, element-wise with broadcasting; the condition is an array of 0 and 1 (any
// other value counts as 1) of the operands' dtype. What is not selected gets gradient 0, whatever
// the gradient there: 0 * inf cannot arise.
[[nodiscard]] Var where(const Array& condition, const Var& a, const Var& b);

// Rows of a table: table [rows, ...], indices of `shape` -> shape + [...]. The gradient is a
// scatter-add, repeated indices add up. Throws ValueError naming index and place outside [0, rows).
[[nodiscard]] Var gather_rows(const Var& table, std::span<const std::int32_t> indices,
                              const Shape& shape);

// Rows of a table with what positions add, in one pass: y = scale * table[index] + added.
// table: [rows, ...], indices of `shape`; added: the last axes of y, with or without leading
// ones, repeated over the others; or null -> shape + [...]
[[nodiscard]] Var embedding(const Var& table, std::span<const std::int32_t> indices,
                            const Shape& shape, double scale, const Var& added);

}  // namespace attune
