#pragma once

#include <cstddef>
#include <cstdint>

namespace attune {

// Extents and places are signed here and unsigned in the standard library.
[[nodiscard]] constexpr std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace attune
