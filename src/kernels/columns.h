#pragma once

#include <cstdint>
#include <span>

#include "attune/array/array.h"

// Rows whose elements go by columns: ops/columns.h. `columns` is [1 or batch, 1 or heads, query,
// key], its values in [0, n); each kernel is the backward of the other.
namespace attune::kernels {

// x: [batch, heads, query, n] -> [batch, heads, query, key]
[[nodiscard]] Array take_columns(const Array& x, std::span<const std::int32_t> columns,
                                 const Shape& shape);
// x: [batch, heads, query, key] -> [batch, heads, query, n]; keys add up in their order.
[[nodiscard]] Array sum_columns(const Array& x, std::span<const std::int32_t> columns,
                                const Shape& shape, std::int64_t n);

}  // namespace attune::kernels
