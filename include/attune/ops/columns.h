#pragma once

#include <cstdint>
#include <vector>

#include "attune/autodiff/var.h"

namespace attune {

// A column for each pair of a query and a key, such as the one that stands for their distance.
struct Columns {
  Shape shape;                       // [1 or batch, 1 or heads, query, key]
  std::vector<std::int32_t> values;  // in row-major order
};

// Each query row spread over the keys, and keys gathered by column; one is the other's gradient.
// Both throw ShapeError where extents do not fit, ValueError naming a column outside [0, n).
//
//   y[b, h, i, j] = x[b, h, i, columns[b, h, i, j]]
//   x: [batch, heads, query, n] -> [batch, heads, query, key]
[[nodiscard]] Var take_columns(const Var& x, const Columns& columns);
//   y[b, h, i, c] = sum of x[b, h, i, j] over all j with columns[b, h, i, j] = c
//   x: [batch, heads, query, key] -> [batch, heads, query, n]
[[nodiscard]] Var sum_columns(const Var& x, const Columns& columns, std::int64_t n);

}  // namespace attune
