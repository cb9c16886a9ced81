#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace attune {

// Text as the content of an element or of an attribute in quotes: &, <, >, " and ' as entities,
// control characters as people read them, U+FFFD for bytes that are not UTF-8.
[[nodiscard]] std::string html_text(std::string_view text);

// JSON as the content of a script element, which nothing in it can close.
[[nodiscard]] std::string json_in_script(std::string_view json);

// The template with {{name}} replaced; what was put in is not searched again. Throws InternalError
// for a name that is not given.
[[nodiscard]] std::string filled_in(
    std::string_view page, std::span<const std::pair<std::string_view, std::string>> values);

// "sha256-...", by which a page allows exactly this script (Content Security Policy, level 2).
[[nodiscard]] std::string script_hash(std::string_view script);

}  // namespace attune
