#include "observe/report/html.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/hash.h"
#include "attune/core/text.h"

namespace attune {
namespace {

// UTF-8 with U+FFFD in place of each byte that does not belong to it.
std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    std::optional<std::size_t> bad;
    static_cast<void>(decode_utf8(text, &bad));
    valid += text.substr(0, bad.value_or(text.size()));
    if (!bad) break;
    valid += "\xef\xbf\xbd";
    text.remove_prefix(*bad + 1);
  }
  return valid;
}

// RFC 4648 of bytes that are given in hexadecimal.
std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t begin = 0; begin < hex.size(); begin += 6) {
    const std::string_view group = hex.substr(begin, 6);
    const std::size_t bytes = group.size() / 2;
    std::uint32_t bits = 0;
    for (const char digit : group) {
      bits = bits << 4 | static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    bits <<= 8 * (3 - bytes);
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= bytes ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(printable(text))) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string json_in_script(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string filled_in(std::string_view page,
                      std::span<const std::pair<std::string_view, std::string>> values) {
  std::string filled;
  while (true) {
    const std::size_t open = page.find("{{");
    filled += page.substr(0, open);
    if (open == std::string_view::npos) return filled;
    const std::size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    const auto found = std::ranges::find_if(values, [&](const auto& v) { return v.first == name; });
    if (close == std::string_view::npos || found == values.end()) {
      throw InternalError(fmt::format("report: the page template asks for '{}'", name));
    }
    filled += found->second;
    page.remove_prefix(close + 2);
  }
}

std::string script_hash(std::string_view script) {
  return "sha256-" + base64_of_hex(sha256(script));
}

}  // namespace attune
