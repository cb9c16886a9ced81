#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Text and numbers that do not depend on a locale.
namespace attune {

// The whole of `text` as a number; nothing for junk, trailing characters, overflow, or (floats)
// NaN.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_float(std::string_view text);
// true/false, on/off, yes/no, 1/0 in any letter case.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);
// "90", "90s", "3m", "1.5h" -> seconds; nothing for junk, a negative or an infinite time.
[[nodiscard]] std::optional<double> parse_duration(std::string_view text);

// The shortest decimal text that reads back as the same double: "0.001", "1e-08".
[[nodiscard]] std::string format_float(double value);
// "12.3s", "4m05s", "2h03m"; "?" for what is no time: negative, NaN, or beyond a billion hours.
[[nodiscard]] std::string format_duration(double seconds);
// "804,096"
[[nodiscard]] std::string format_count(std::int64_t value);

// The parts between separators, empty ones included: one more than there are separators.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// UTF-8 to code points. On a malformed sequence (RFC 3629; overlong forms and surrogates too)
// returns its byte offset in `bad_offset`, if that is not null, and stops; otherwise `bad_offset`
// is empty.
[[nodiscard]] std::vector<char32_t> decode_utf8(std::string_view bytes,
                                                std::optional<std::size_t>* bad_offset);
// Throws ValueError for a surrogate and beyond 0x10ffff.
[[nodiscard]] std::string encode_utf8(char32_t code_point);

// The text with control characters as "\\x0a": what an error quotes stays on its one line.
[[nodiscard]] std::string printable(std::string_view text);

// Up to `most` of the candidates that are nearest to `name`, best first, ties in the order given.
// Near is a Damerau-Levenshtein distance of at most 3 and at most half the length of `name`, or one
// being the beginning of the other; leading dashes do not count.
[[nodiscard]] std::vector<std::string> nearest(std::string_view name,
                                               std::span<const std::string> candidates,
                                               std::size_t most = 3);
// "" or "; did you mean --n-layer or --n-head?" for the candidates that nearest() finds.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string> candidates);

}  // namespace attune
