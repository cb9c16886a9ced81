#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "kernels/attention_tile.h"

// How the tiled form of attention cuts the keys, and what its two passes share.
namespace attune::kernels {

// Keys of a block: the scores of a tile against one block, and the block's keys and values, stay in
// the caches. A multiple of every panel.
inline constexpr std::int64_t kBlockKeys = 256;
// Row strides of packed blocks: see spread().
template <std::floating_point T>
inline constexpr std::int64_t kBlockStride = spread<T>(kBlockKeys);

// The part of a tile whose keys lie in [begin, begin + kBlockKeys); keys() <= 0: none do.
template <std::floating_point T>
[[nodiscard]] Tile restricted(Tile tile, std::int64_t begin) {
  tile.begin = std::max(tile.begin, begin);
  tile.end = std::min(tile.end, begin + kBlockKeys);
  tile.origin = tile.begin / kPanel<T> * kPanel<T>;
  tile.columns = padded<T>(tile.end) - tile.origin;
  return tile;
}

// Which keys any query row of a key head's group keeps, 1 or 0: [key].
template <std::floating_point T>
void find_kept_keys(const AttentionOperands<T>& operands, std::int64_t example,
                    std::int64_t kv_head, std::uint8_t* flags, T* kept) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t group = extents.heads / extents.kv_heads;
  std::fill_n(kept, extents.key, T(0));
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t i = 0; i < extents.query; ++i) {
      operands.mask->fill_row(example, head, i, extents.query, extents.key,
                              {flags, static_cast<std::size_t>(extents.key)});
      for (std::int64_t j = 0; j < extents.key; ++j) kept[j] = flags[j] != 0 ? T(1) : kept[j];
    }
  }
}

// The flags of a tile of one block, rows kBlockKeys apart, from key `origin` on.
template <std::floating_point T>
void fill_flags(const AttentionOperands<T>& operands, const Tile& tile, std::uint8_t* flags) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t count = std::min(tile.columns, extents.key - tile.origin);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    operands.mask->fill_row(tile.example, tile.head, tile.first + r, extents.query, extents.key,
                            {flags + r * kBlockKeys, static_cast<std::size_t>(count)}, tile.origin);
  }
}

}  // namespace attune::kernels
