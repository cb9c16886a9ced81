#pragma once

#include <cstdint>

#include "attune/core/random.h"

namespace attune {

// Places where a window of `block` tokens and their successors can start: 0 .. characters - block
// - 1.
[[nodiscard]] constexpr std::int64_t window_count(std::int64_t characters, std::int64_t block) {
  return characters > block ? characters - block : 0;
}

// One of them, each equally often. Requires window_count(characters, block) >= 1.
[[nodiscard]] inline std::int64_t draw_window(std::int64_t characters, std::int64_t block,
                                              RandomCursor& cursor) {
  return cursor.between(0, window_count(characters, block) - 1);
}

}  // namespace attune
