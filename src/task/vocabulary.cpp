#include "attune/task/vocabulary.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/task/task.h"

namespace attune {
namespace {

constexpr char32_t kByteOrderMark = 0xFEFF;

bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_word(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string known_texts(const std::vector<std::string>& texts) {
  if (texts.empty()) return "nothing, the vocabulary is empty";
  return fmt::format("tokens of the vocabulary, {} texts from \"{}\" to \"{}\"", texts.size(),
                     printable(texts.front()), printable(texts.back()));
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> texts, Spelling spelling)
    : texts_(std::move(texts)), spelling_(spelling) {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    std::optional<std::size_t> bad_offset;
    const std::size_t characters = decode_utf8(texts_[i], &bad_offset).size();
    if (bad_offset || characters == 0)
      throw ValueError(
          fmt::format("vocabulary: text {} is {}", i, bad_offset ? "not UTF-8" : "empty"));
    has_words_ = has_words_ || characters > 1;
    if (!tokens_.emplace(texts_[i], static_cast<std::int32_t>(i)).second)
      throw ValueError(
          fmt::format("vocabulary: text {} \"{}\" is there twice", i, printable(texts_[i])));
  }
}

std::string Vocabulary::text(std::int32_t token) const {
  if (token == kIgnore) return "_";
  if (token < 0 || token >= size())
    throw ValueError(
        fmt::format("vocabulary: token {} is not between 0 and {}", token, size() - 1));
  return texts_[static_cast<std::size_t>(token)];
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  const bool spaced = spelling_ == Spelling::symbols && has_words_;
  std::string result;
  for (const std::int32_t token : tokens) {
    if (spaced && !result.empty()) result += ' ';
    result += text(token);
  }
  return result;
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  std::optional<std::size_t> bad_offset;
  const std::vector<char32_t> characters = decode_utf8(text, &bad_offset);
  if (bad_offset) throw ValueError(fmt::format("prompt: not UTF-8 at byte {}", *bad_offset));

  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < characters.size();) {
    const char32_t c = characters[i];
    const char32_t next = i + 1 < characters.size() ? characters[i + 1] : U'\0';
    const bool skipped = spelling_ == Spelling::symbols
                             ? is_blank(c)
                             : (c == kByteOrderMark && i == 0) || (c == '\r' && next == '\n');
    const std::size_t begin = i++;
    if (skipped) continue;
    std::string piece = encode_utf8(c);
    if (spelling_ == Spelling::symbols && has_words_ && is_word(c))
      while (i < characters.size() && is_word(characters[i])) piece += encode_utf8(characters[i++]);
    const auto found = tokens_.find(piece);
    if (found == tokens_.end())
      throw ValueError(fmt::format("prompt: unknown \"{}\" at position {}; expected {}",
                                   printable(piece), begin, known_texts(texts_)));
    tokens.push_back(found->second);
  }
  return tokens;
}

}  // namespace attune
