#include "attune/ops/select.h"

#include <fmt/format.h>

#include <vector>

#include "attune/autodiff/tape.h"
#include "kernels/binary.h"
#include "kernels/gather.h"
#include "kernels/shaping.h"
#include "ops/check.h"

namespace attune {
namespace {

void check_indices(const Var& table, std::span<const std::int32_t> indices, const Shape& shape) {
  if (table.shape().rank() == 0) {
    throw ShapeError("gather_rows: table [] is a scalar, expected [rows, ...]");
  }
  if (static_cast<std::int64_t>(indices.size()) != shape.size()) {
    throw ShapeError(fmt::format("gather_rows: {} indices for the shape {}, expected {}",
                                 indices.size(), to_string(shape), shape.size()));
  }
  const std::int64_t rows = table.shape()[0];
  for (std::size_t place = 0; place < indices.size(); ++place) {
    if (indices[place] < 0 || indices[place] >= rows) {
      throw ValueError(fmt::format(
          "gather_rows: index {} at place {} is outside [0, {}), the rows of the table {}",
          indices[place], place, rows, to_string(table.shape())));
    }
  }
}

}  // namespace

// da = condition ? dy : 0, db = condition ? 0 : dy
Var where(const Array& condition, const Var& a, const Var& b) {
  require_same_dtype("where", a.value(), b.value());
  require_same_dtype("where", condition, a.value());
  return record("where", {a, b}, kernels::select(condition, a.value(), b.value()),
                [condition](const Array& dy, InputGradients& dx) {
                  if (dx.needs(0)) dx.add(0, kernels::keep_where(condition, dy));
                  if (dx.needs(1)) dx.add(1, kernels::keep_where_not(condition, dy));
                });
}

Var gather_rows(const Var& table, std::span<const std::int32_t> indices, const Shape& shape) {
  check_indices(table, indices, shape);
  Array y = kernels::gather_rows(table.value(), indices, shape);
  if (table.tape() == nullptr) return y;
  return record("gather_rows", {table}, y,
                [rows = std::vector<std::int32_t>(indices.begin(), indices.end())](
                    const Array& dy, InputGradients& dx) {
                  const auto [dtable, holds_sum] = dx.accumulate(0);
                  if (!holds_sum) kernels::fill_zero(dtable);
                  kernels::gather_rows_backward(dy, rows, dtable);
                });
}

}  // namespace attune
