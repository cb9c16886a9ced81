#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace attune {

// What toml++ 3.3 must not meet, although it is text that a parser should refuse or read.
struct TomlHazard {
  std::size_t offset;
  std::string_view reason;
};

// The first one in a document:
// - a byte beyond ASCII where TOML 1.0 has none: outside of strings and comments (a byte order mark
//   at the start aside), as what a backslash escapes, or behind a line that ends in one. What
//   toml++ does there with U+FB26 to U+FF1F is undefined.
// - a quote inside of a word, `1'x'` or `a."b"`: toml++ reads a word that is a value to its end, as
//   no string.
// - more than kMostDots dots outside of strings and comments. A dotted key is a table a part, and
//   tables are taken down by recursion: the stack ends before a long file does.
inline constexpr std::size_t kMostDots = 1000;
[[nodiscard]] std::optional<TomlHazard> find_hazard(std::string_view toml);

}  // namespace attune
