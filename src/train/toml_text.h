#pragma once

#include <string>
#include <string_view>

// toml++ 3.3 does something undefined where it looks for a blank and meets one of many characters
// (U+00A1 to U+0499 among them), and it looks for one within malformed numbers, quotes and all. So
// it reads U+F0080 to U+FFFFF, of which it knows that they are none, in place of U+0080 to U+FFFF.
namespace attune {

// A document as toml++ may read it; every character keeps its place. Throws ConfigError naming
// `source` and the place for
// - what is not UTF-8;
// - a character of plane 15, raw or escaped: nobody could tell it from a stand-in;
// - more than 1000 dots: a dotted key is a table a part, and tables are taken down by recursion, so
//   that the stack ends before a long file does.
[[nodiscard]] std::string to_parser_text(std::string_view toml, std::string_view source);

// What toml++ gives back, keys, values and reasons of errors, with the characters of the document.
[[nodiscard]] std::string from_parser_text(std::string_view text);

// Whether the text holds characters of plane 15, which to_parser_text() refuses.
[[nodiscard]] bool has_stand_ins(std::string_view text);

}  // namespace attune
