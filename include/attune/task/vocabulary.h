#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attune {

// Token texts and the way between text and tokens. Token i is texts()[i].
class Vocabulary final {
 public:
  enum class Spelling : std::uint8_t {
    // Every character is a token. A byte order mark at the start is dropped and "\r\n" becomes
    // "\n",
    // as in the file that a text model was trained on.
    text,
    // Blanks separate tokens. Where each token is one character they may also be glued ("3 1 2" or
    // "312"); elsewhere a run of letters and digits is one token ("12+5=" is "12 + 5 =").
    symbols,
  };

  // Throws ValueError for a text that is empty, not UTF-8, or there twice.
  Vocabulary(std::vector<std::string> texts, Spelling spelling);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(texts_.size()); }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

  // "_" for kIgnore. Throws ValueError for a token outside [0, size()).
  [[nodiscard]] std::string text(std::int32_t token) const;
  // encode(decode(tokens)) gives the tokens back.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  // Throws ValueError naming what is unknown and its place, counted from 0 in characters.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::int32_t> tokens_;
  Spelling spelling_;
  bool has_words_ = false;  // some text is longer than one character
};

}  // namespace attune
