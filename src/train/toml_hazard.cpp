#include "train/toml_hazard.h"

#include <algorithm>
#include <string>

namespace attune {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kBeforeString = " \t\r\n=,[{\"'";

// Follows a document from string to string. What is wrong in another way is left to the parser,
// which reads no further than to there.
class Scanner final {
 public:
  explicit Scanner(std::string_view toml)
      : toml_(toml), at_(toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0) {}

  std::optional<TomlHazard> find() {
    for (std::size_t dots = 0; at_ < toml_.size();) {
      if (is_beyond_ascii()) {
        return TomlHazard{at_, "outside of strings and comments there is nothing beyond ASCII"};
      }
      const char c = toml_[at_];
      if (c == '.' && ++dots > kMostDots) return TomlHazard{at_, "too many parts of keys"};
      if (c == '#') {
        at_ = std::min(toml_.find('\n', at_), toml_.size());
      } else if (c == '"' || c == '\'') {
        const bool may_begin = at_ == 0 || kBeforeString.find(toml_[at_ - 1]) != kBeforeString.npos;
        if (!may_begin && !follows_mark()) return TomlHazard{at_, "a quote inside of a word"};
        skip_string(c);
      } else {
        ++at_;
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool follows_mark() const {
    return at_ == kByteOrderMark.size() && toml_.starts_with(kByteOrderMark);
  }
  [[nodiscard]] bool is_beyond_ascii() const {
    return static_cast<unsigned char>(toml_[at_]) >= 0x80;
  }

  // From the quote at its start to behind its end, or to a byte that find() refuses.
  void skip_string(char quote) {
    const std::string long_end(3, quote);
    const bool is_long = toml_.substr(at_).starts_with(long_end);
    const std::string_view end = is_long ? std::string_view(long_end) : toml_.substr(at_, 1);
    at_ += end.size();
    while (at_ < toml_.size() && (is_long || toml_[at_] != '\n')) {
      if (toml_.substr(at_).starts_with(end)) {
        at_ += end.size();
        while (is_long && at_ < toml_.size() && toml_[at_] == quote) ++at_;  // quotes at its end
        return;
      }
      const bool escapes = quote == '"' && toml_[at_] == '\\';
      ++at_;
      if (escapes && !skip_escaped(is_long)) return;
    }
  }

  // What follows a backslash; false where it is beyond ASCII.
  bool skip_escaped(bool is_long) {
    const std::size_t next = std::min(toml_.find_first_not_of(kBlanks, at_), toml_.size());
    const bool ends_line = is_long && next > at_;
    if (ends_line) at_ = next;
    if (at_ == toml_.size()) return true;
    if (is_beyond_ascii()) return false;
    if (!ends_line) ++at_;
    return true;
  }

  std::string_view toml_;
  std::size_t at_;
};

}  // namespace

std::optional<TomlHazard> find_hazard(std::string_view toml) { return Scanner(toml).find(); }

}  // namespace attune
