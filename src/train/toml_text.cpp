#include "train/toml_text.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {
namespace {

constexpr char32_t kStandIns = 0xF0000;
constexpr char32_t kByteOrderMark = 0xFEFF;  // toml++ knows this one
constexpr std::size_t kMostDots = 1000;

bool is_stand_in(char32_t c) { return c >= kStandIns && c < kStandIns + 0x10000; }
bool needs_stand_in(char32_t c) { return c >= 0x80 && c < 0x10000 && c != kByteOrderMark; }

// Whether "\U000F...." stands here, in either case of the digit.
bool is_escaped_stand_in(std::span<const char32_t> rest) {
  constexpr std::u32string_view kEscape = U"\\U000f";
  if (rest.size() < kEscape.size()) return false;
  return std::equal(kEscape.begin(), kEscape.end(), rest.begin(), [](char32_t wanted, char32_t c) {
    return c == wanted || (wanted == U'f' && c == U'F');
  });
}

}  // namespace

std::string to_parser_text(std::string_view toml, std::string_view source) {
  std::optional<std::size_t> bad_offset;
  const std::vector<char32_t> characters = decode_utf8(toml, &bad_offset);
  if (bad_offset) throw ConfigError(fmt::format("{}: not UTF-8 at byte {}", source, *bad_offset));
  std::string text;
  std::size_t line = 1, column = 1, dots = 0;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const char32_t c = characters[i];
    const bool is_private = is_stand_in(c) || is_escaped_stand_in(std::span(characters).subspan(i));
    dots += c == U'.';
    if (is_private || dots > kMostDots) {
      throw ConfigError(fmt::format(
          "{}: line {}, column {}: {}", source, line, column,
          is_private ? "characters of plane 15 are for private use" : "more than 1000 dots"));
    }
    text += encode_utf8(needs_stand_in(c) ? kStandIns + c : c);
    column = c == U'\n' ? 1 : column + 1;
    line += c == U'\n';
  }
  return text;
}

std::string from_parser_text(std::string_view text) {
  std::string result;
  for (const char32_t c : decode_utf8(text, nullptr)) {
    result += encode_utf8(is_stand_in(c) ? c - kStandIns : c);
  }
  return result;
}

bool has_stand_ins(std::string_view text) {
  return std::ranges::any_of(decode_utf8(text, nullptr), is_stand_in);
}

}  // namespace attune
