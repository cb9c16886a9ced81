#include "attune/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "attune/core/error.h"

namespace attune {
namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

// Letters of ASCII alone: what std::tolower makes of the others depends on the locale.
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool is_surrogate(char32_t code_point) { return code_point >= 0xd800 && code_point <= 0xdfff; }

// The code point at the front of `bytes` and its length; nothing where it is malformed (RFC 3629:
// cut off, overlong, a surrogate, beyond 10FFFF).
std::optional<std::pair<char32_t, std::size_t>> first_code_point(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return std::pair{char32_t{lead}, std::size_t{1}};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc0 || lead >= 0xf8 || bytes.size() < length) return std::nullopt;
  char32_t code_point = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    code_point = code_point << 6 | (byte(i) & 0x3fu);
  }
  if (code_point < kSmallest[length] || code_point > 0x10ffff || is_surrogate(code_point)) {
    return std::nullopt;
  }
  return std::pair{code_point, length};
}

// Damerau-Levenshtein distance in its restricted form (optimal string alignment): insert, delete,
// replace, or swap two neighbours, no place edited twice. distance[i][j] belongs to the first i and
// j characters; three rows are alive.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string_view without_dashes(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  return name;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_float(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "on" || word == "yes" || word == "1") return true;
  if (word == "false" || word == "off" || word == "no" || word == "0") return false;
  return std::nullopt;
}

std::optional<double> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double unit = 1;
  switch (text.back()) {
    case 'h':
      unit = 3600;
      text.remove_suffix(1);
      break;
    case 'm':
      unit = 60;
      text.remove_suffix(1);
      break;
    case 's':
      text.remove_suffix(1);
      break;
    default:
      break;
  }
  const auto count = parse_float(text);
  if (!count || std::signbit(*count) || std::isinf(*count * unit)) return std::nullopt;
  return *count * unit;
}

std::string format_float(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> buffer;  // the longest is "-2.2250738585072014e-308"
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::string format_duration(double seconds) {
  constexpr double kLongest = 3.6e12;
  if (!(seconds >= 0 && seconds <= kLongest)) return "?";
  // Rounded first, so that 59.96 seconds are a minute and not "60.0s".
  const std::int64_t tenths = std::llround(seconds * 10);
  if (tenths < 600) return fmt::format("{}.{}s", tenths / 10, tenths % 10);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const std::int64_t minutes = std::llround(seconds / 60);
  return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
}

std::string format_count(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first_digit = value < 0 ? 1 : 0;
  for (std::size_t place = text.size(); place > first_digit + 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<char32_t> decode_utf8(std::string_view bytes, std::optional<std::size_t>* bad_offset) {
  std::vector<char32_t> code_points;
  code_points.reserve(bytes.size());
  if (bad_offset != nullptr) bad_offset->reset();
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto next = first_code_point(bytes.substr(offset));
    if (!next) {
      if (bad_offset != nullptr) *bad_offset = offset;
      break;
    }
    code_points.push_back(next->first);
    offset += next->second;
  }
  return code_points;
}

std::string encode_utf8(char32_t code_point) {
  if (code_point > 0x10ffff || is_surrogate(code_point)) {
    throw ValueError(
        fmt::format("utf-8: {:#x} is no code point, expected 0 to 0x10ffff without surrogates",
                    static_cast<std::uint32_t>(code_point)));
  }
  const auto byte = [](char32_t bits) {
    return static_cast<char>(static_cast<unsigned char>(bits));
  };
  const auto continuation = [&](int shift) { return byte(0x80 | (code_point >> shift & 0x3f)); };
  if (code_point < 0x80) return {byte(code_point)};
  if (code_point < 0x800) return {byte(0xc0 | code_point >> 6), continuation(0)};
  if (code_point < 0x10000) {
    return {byte(0xe0 | code_point >> 12), continuation(6), continuation(0)};
  }
  return {byte(0xf0 | code_point >> 18), continuation(12), continuation(6), continuation(0)};
}

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates,
                                 std::size_t most) {
  const std::string_view bare = without_dashes(name);
  if (bare.empty()) return {};
  std::vector<std::pair<std::size_t, const std::string*>> found;
  for (const std::string& candidate : candidates) {
    const std::string_view bare_candidate = without_dashes(candidate);
    const std::size_t surplus =
        std::max(bare.size(), bare_candidate.size()) - std::min(bare.size(), bare_candidate.size());
    const bool prefix = bare_candidate.starts_with(bare) ||
                        (!bare_candidate.empty() && bare.starts_with(bare_candidate));
    // No distance is below the difference in length: a word of megabytes costs no table.
    const std::size_t limit = std::min<std::size_t>(3, bare.size() / 2);
    const std::size_t distance =
        prefix || surplus > limit ? surplus : edit_distance(bare, bare_candidate);
    if (prefix || distance <= limit) found.emplace_back(distance, &candidate);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i) names.push_back(*found[i].second);
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto names = nearest(name, candidates);
  if (names.empty()) return "";
  std::string text = "; did you mean " + names[0];
  for (std::size_t i = 1; i < names.size(); ++i) {
    text += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return text + "?";
}

}  // namespace attune
