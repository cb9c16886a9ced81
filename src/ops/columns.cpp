#include "attune/ops/columns.h"

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "kernels/columns.h"

namespace attune {
namespace {

void check_columns(const char* operation, const Var& x, const Columns& columns, std::int64_t n) {
  const Shape& extents = x.shape();
  const Shape& shape = columns.shape;
  const bool fits = extents.rank() == 4 && shape.rank() == 4 &&
                    (shape[0] == 1 || shape[0] == extents[0]) &&
                    (shape[1] == 1 || shape[1] == extents[1]) && shape[2] == extents[2] &&
                    static_cast<std::int64_t>(columns.values.size()) == shape.size();
  if (!fits) {
    throw ShapeError(fmt::format(
        "{}: {} columns {} do not fit x {}, expected [1 or batch, 1 or heads, query, key]",
        operation, columns.values.size(), to_string(shape), to_string(extents)));
  }
  for (const std::int32_t column : columns.values) {
    if (column < 0 || column >= n)
      throw ValueError(fmt::format("{}: column {} is outside [0, {})", operation, column, n));
  }
}

}  // namespace

// dx[b, h, i, c] = sum of dy[b, h, i, j] over all j with columns[b, h, i, j] = c
Var take_columns(const Var& x, const Columns& columns) {
  const std::int64_t n = x.shape().rank() == 4 ? x.shape()[3] : 0;
  check_columns("take_columns", x, columns, n);
  Array y = kernels::take_columns(x.value(), columns.values, columns.shape);
  if (x.tape() == nullptr) return y;
  return record("take_columns", {x}, y,
                [columns = columns, n](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::sum_columns(dy, columns.values, columns.shape, n));
                });
}

// dx[b, h, i, j] = dy[b, h, i, columns[b, h, i, j]]
Var sum_columns(const Var& x, const Columns& columns, std::int64_t n) {
  check_columns("sum_columns", x, columns, n);
  if (x.shape()[3] != columns.shape[3]) {
    throw ShapeError(fmt::format("sum_columns: columns {} do not fit x {}, keys differ",
                                 to_string(columns.shape), to_string(x.shape())));
  }
  Array y = kernels::sum_columns(x.value(), columns.values, columns.shape, n);
  if (x.tape() == nullptr) return y;
  return record("sum_columns", {x}, y, [columns = columns](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::take_columns(dy, columns.values, columns.shape));
  });
}

}  // namespace attune
