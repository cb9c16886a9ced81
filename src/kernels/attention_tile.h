#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "attune/array/array.h"
#include "kernels/attention.h"
#include "kernels/small_gemm.h"

// What the forward and the backward pass of attention share: how a head is cut into tiles.
namespace attune::kernels {

// Query rows of a tile. More rows reuse a key more often; fewer skip more of a causal mask's empty
// half.
inline constexpr std::int64_t kTileRows = 16;

// Query rows [first, first + rows) of one head against the keys [begin, end) that the mask's band
// leaves to any of them. Scores of a tile are `columns` wide, in whole panels from key `origin`
// on; those outside [begin, end) hold junk until they are selected away.
struct Tile {
  std::int64_t example, head, kv_head;
  std::int64_t first, rows;
  std::int64_t begin, end;
  std::int64_t origin, columns;
  [[nodiscard]] std::int64_t keys() const { return end - begin; }
};

// The keys [begin, end) of the query rows [first, last], for which a band only ever moves forward.
[[nodiscard]] inline Mask::Range keys_of_rows(const Mask* mask, const AttentionExtents& extents,
                                              std::int64_t first, std::int64_t last) {
  if (mask == nullptr) return {0, extents.key};
  const Mask::Range range{mask->band(first, extents.query, extents.key).begin,
                          mask->band(last, extents.query, extents.key).end};
  return range.begin < range.end ? range : Mask::Range{0, 0};
}

template <std::floating_point T>
[[nodiscard]] Tile tile_at(const AttentionOperands<T>& operands, std::int64_t example,
                           std::int64_t head, std::int64_t first) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t rows = std::min(kTileRows, extents.query - first);
  const auto [begin, end] = keys_of_rows(operands.mask, extents, first, first + rows - 1);
  const std::int64_t origin = begin / kPanel<T> * kPanel<T>;
  return {.example = example,
          .head = head,
          .kv_head = head / (extents.heads / extents.kv_heads),
          .first = first,
          .rows = rows,
          .begin = begin,
          .end = end,
          .origin = origin,
          .columns = padded<T>(end) - origin};
}

// Element 0 of row i of a head.
template <class T>
[[nodiscard]] T* row_of(const HeadRows<T>& rows, std::int64_t example, std::int64_t head,
                        std::int64_t width, std::int64_t i) {
  return rows.data + example * rows.batch_stride + i * rows.row_stride + head * width;
}

// Where a tile lies in an array [batch, heads, query, padded keys].
template <std::floating_point T>
[[nodiscard]] std::int64_t offset_of(const Tile& tile, const AttentionExtents& extents) {
  return ((tile.example * extents.heads + tile.head) * extents.query + tile.first) *
             padded<T>(extents.key) +
         tile.origin;
}

// Where the bias of a tile's first row and key 0 lies.
template <std::floating_point T>
[[nodiscard]] std::int64_t bias_offset(const AttentionOperands<T>& operands, const Tile& tile) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t example = operands.bias_per_example ? tile.example : 0;
  return ((example * extents.heads + tile.head) * extents.query + tile.first) * extents.key;
}

// Weights are dropped where their 32 random bits are below `limit`, the others are multiplied by
// `factor` = 1 / (1 - rate). Rate 1 drops all, by the factor 0.
struct DropoutRule {
  std::uint32_t limit = 0;
  double factor = 1;
};
[[nodiscard]] inline DropoutRule dropout_rule(double rate) {
  const double limit = std::round(std::ldexp(rate, 32));
  if (limit > 4294967295.0) return {0, 0.0};
  return {static_cast<std::uint32_t>(limit), 1 / (1 - rate)};
}

// Working memory of one call, from the buffer pool.
template <std::floating_point T>
class Scratch final {
 public:
  explicit Scratch(std::int64_t count)
      : array_(Array::uninitialized({count}, dtype_of<T>)),
        data_(array_.mutable_data<T>().data()) {}
  [[nodiscard]] T* data() const { return data_; }

 private:
  Array array_;
  T* data_;
};

// A row stride for n columns of a packed operand, in whole panels. An odd number of cache lines
// keeps the rows of one column of panels from falling into the same sets of the cache.
template <std::floating_point T>
[[nodiscard]] constexpr std::int64_t spread(std::int64_t n) {
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  return ((n + line - 1) / line | 1) * line;
}

// y [rows, width], rows `stride` apart, = (or += where `accumulate` is set) packed rows `ldx`
// apart.
template <std::floating_point T>
void unpack(const T* x, std::int64_t ldx, std::int64_t rows, std::int64_t width, T* y,
            std::int64_t stride, bool accumulate) {
  for (std::int64_t i = 0; i < rows; ++i, x += ldx, y += stride) {
    if (accumulate) {
      for (std::int64_t c = 0; c < width; ++c) y[c] += x[c];
    } else {
      std::copy_n(x, width, y);
    }
  }
}

}  // namespace attune::kernels
