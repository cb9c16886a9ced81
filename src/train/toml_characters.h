#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace attune {

// The offset of the first byte beyond ASCII where TOML 1.0 has none: outside of strings and
// comments (a byte order mark at the start aside), as what a backslash escapes, or behind a line
// that ends in one. toml++ 3.3 must not meet such bytes: what it does with U+FB26 to U+FF1F there
// is undefined.
[[nodiscard]] std::optional<std::size_t> stray_character(std::string_view toml);

}  // namespace attune
