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

void check_indices(const char* operation, const Var& table, std::span<const std::int32_t> indices,
                   const Shape& shape) {
  if (table.shape().rank() == 0) {
    throw ShapeError(fmt::format("{}: table [] is a scalar, expected [rows, ...]", operation));
  }
  if (static_cast<std::int64_t>(indices.size()) != shape.size()) {
    throw ShapeError(fmt::format("{}: {} indices for the shape {}, expected {}", operation,
                                 indices.size(), to_string(shape), shape.size()));
  }
  const std::int64_t rows = table.shape()[0];
  for (std::size_t place = 0; place < indices.size(); ++place) {
    if (indices[place] < 0 || indices[place] >= rows) {
      throw ValueError(
          fmt::format("{}: index {} at place {} is outside [0, {}), the rows of the table {}",
                      operation, indices[place], place, rows, to_string(table.shape())));
    }
  }
}

void check_added(const Var& added, const Var& table, const Shape& shape) {
  const Shape whole = kernels::gathered_shape(table.shape(), shape);
  const Shape& part = added.shape();
  int repeated = 0;  // leading axes of extent 1
  while (repeated < part.rank() && part[repeated] == 1) ++repeated;
  bool fits = part.rank() <= whole.rank() && added.dtype() == table.dtype();
  for (int axis = 1; fits && axis <= part.rank() - repeated; ++axis)
    fits = part[part.rank() - axis] == whole[whole.rank() - axis];
  if (fits) return;
  throw ShapeError(fmt::format("embedding: {} {} is added to {} {}, expected its last axes",
                               to_string(added.dtype()), to_string(part), to_string(table.dtype()),
                               to_string(whole)));
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
  check_indices("gather_rows", table, indices, shape);
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

// dtable[index_i] += scale dy_i, dadded = dy, summed over what it was repeated over
Var embedding(const Var& table, std::span<const std::int32_t> indices, const Shape& shape,
              double scale, const Var& added) {
  check_indices("embedding", table, indices, shape);
  if (!added.is_null()) check_added(added, table, shape);
  Array y = kernels::embedding(table.value(), indices, shape, scale, added.value());
  return record("embedding", {table, added}, y,
                [scale, rows = std::vector<std::int32_t>(indices.begin(), indices.end())](
                    const Array& dy, InputGradients& dx) {
                  if (dx.needs(0)) {
                    const auto [dtable, holds_sum] = dx.accumulate(0);
                    if (!holds_sum) kernels::fill_zero(dtable);
                    kernels::gather_rows_backward(dy, rows, dtable, scale);
                  }
                  if (dx.needs(1)) dx.add(1, dy);
                });
}

}  // namespace attune
