#pragma once

#include "attune/ops/attention.h"
#include "kernels/attention.h"

// What the fused and the textbook attention, and that over a cache, ask of their arguments.
namespace attune {

// Queries, keys or values as far as checks go.
struct AttentionOperand {
  AttentionOperand(const Var& x) : shape(x.shape()), dtype(x.dtype()) {}  // NOLINT: what it is
  AttentionOperand(const Shape& shape, DType dtype) : shape(shape), dtype(dtype) {}
  Shape shape;
  DType dtype;
};

// The extents, once everything fits. Throws ShapeError or ValueError with `operation` in front.
[[nodiscard]] kernels::AttentionExtents check_attention(
    const char* operation, const AttentionOperand& query, const AttentionOperand& key,
    const AttentionOperand& value, const Var& bias, const AttentionOptions& options);

// options.scale, or 1/sqrt(head_dim) where that is 0.
[[nodiscard]] double attention_scale(const kernels::AttentionExtents& extents,
                                     const AttentionOptions& options);

// A distance bias for the kernels; null tables give the null table.
template <class T>
[[nodiscard]] kernels::DistanceTable<T> distance_table(const Array& table, std::int64_t first,
                                                       std::span<const std::int32_t> queries,
                                                       std::span<const std::int32_t> keys,
                                                       const kernels::AttentionExtents& extents) {
  if (table.is_null()) return {};
  const auto stride = [](std::span<const std::int32_t> positions, std::int64_t time) {
    return static_cast<std::int64_t>(positions.size()) == time ? 0 : time;
  };
  return {.table = table.data<T>().data(),
          .distances = table.shape()[1],
          .first = first,
          .query = queries.data(),
          .key = keys.data(),
          .query_stride = stride(queries, extents.query),
          .key_stride = stride(keys, extents.key)};
}

}  // namespace attune
