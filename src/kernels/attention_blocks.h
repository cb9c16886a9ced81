#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "kernels/attention_tile.h"

// How the tiled form of attention cuts the keys.
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

}  // namespace attune::kernels
