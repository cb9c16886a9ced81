#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/task/vocabulary.h"
#include "task/option_checks.h"
#include "task/task_entry.h"
#include "task/text_window.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "say the next character of a UTF-8 text (--data FILE, --block-size)";
constexpr char32_t kByteOrderMark = 0xFEFF;

// The characters of a file: a byte order mark is dropped, "\r\n" becomes "\n", all else stays.
std::vector<char32_t> read_characters(const std::string& path) {
  const std::string bytes = read_file(path);
  std::optional<std::size_t> bad_offset;
  const std::vector<char32_t> raw = decode_utf8(bytes, &bad_offset);
  if (bad_offset)
    throw IoError(fmt::format("--data: {} is not UTF-8 at byte {}", path, *bad_offset));
  std::vector<char32_t> characters;
  characters.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const bool mark = i == 0 && raw[i] == kByteOrderMark;
    const bool line_end = raw[i] == '\r' && i + 1 < raw.size() && raw[i + 1] == '\n';
    if (!mark && !line_end) characters.push_back(raw[i]);
  }
  return characters;
}

// In the order of their code points.
std::vector<char32_t> distinct(const std::vector<char32_t>& characters) {
  if (characters.empty()) return {};
  std::vector<bool> seen(*std::ranges::max_element(characters) + std::size_t{1}, false);
  for (const char32_t character : characters) seen[character] = true;
  std::vector<char32_t> result;
  for (char32_t character = 0; character < seen.size(); ++character)
    if (seen[character]) result.push_back(character);
  return result;
}

std::vector<std::string> texts(const std::vector<char32_t>& characters) {
  std::vector<std::string> result;
  for (const char32_t character : characters) result.push_back(encode_utf8(character));
  return result;
}

// Windows of block_size characters; the first nine tenths of the file are for training, as in
// nanoGPT (int(n * 0.9)), the rest is for validation, and no window reaches across. Tokens are the
// distinct characters in the order of their code points.
class TextTask final : public Task {
 public:
  TextTask(const std::vector<char32_t>& characters, const std::vector<char32_t>& alphabet,
           const TaskOptions& options)
      : block_(options.block_size), vocabulary_(texts(alphabet), Vocabulary::Spelling::text) {
    std::vector<std::int64_t> counts(alphabet.size(), 0);
    tokens_.reserve(characters.size());
    for (const char32_t character : characters) {
      const auto token = std::ranges::lower_bound(alphabet, character) - alphabet.begin();
      tokens_.push_back(static_cast<std::int32_t>(token));
      ++counts[static_cast<std::size_t>(token)];
    }
    const auto all = static_cast<double>(tokens_.size());
    train_characters_ = static_cast<std::int64_t>(all * 0.9);
    for (const Split split : {Split::train, Split::validation})
      if (window_count(part(split).second, block_) < 1)
        throw IoError(
            fmt::format("--data: {} has {} characters for the {} split but a window needs "
                        "{} (--block-size {} and its successor)",
                        options.data, part(split).second, to_string(split), block_ + 1, block_));
    chance_ = static_cast<double>(std::ranges::max(counts)) / all;
  }

  [[nodiscard]] std::string_view name() const override { return "text"; }
  [[nodiscard]] std::string_view description() const override { return kDescription; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_.size(); }
  [[nodiscard]] std::int64_t time() const override { return block_; }
  // The share of the most frequent character in the whole text.
  [[nodiscard]] double chance() const override { return chance_; }
  [[nodiscard]] bool has_answers() const override { return false; }

  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const auto block = static_cast<std::size_t>(block_);
    if (tokens.size() != block || targets.size() != block)
      throw ShapeError(fmt::format("text: room for {} tokens and {} targets but a window has {}",
                                   tokens.size(), targets.size(), block));
    const auto [begin, characters] = part(split);
    const std::int64_t start = begin + draw_window(characters, block_, cursor);
    std::copy_n(tokens_.begin() + start, block, tokens.begin());
    std::copy_n(tokens_.begin() + start + 1, block, targets.begin());
  }

  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return vocabulary_.text(token);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    return vocabulary_.decode(tokens);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    return vocabulary_.encode(text);
  }

 private:
  // First character and number of characters of a split.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> part(Split split) const {
    if (split == Split::train) return {0, train_characters_};
    return {train_characters_, static_cast<std::int64_t>(tokens_.size()) - train_characters_};
  }

  std::int64_t block_;
  std::int64_t train_characters_ = 0;
  std::vector<std::int32_t> tokens_;  // the whole text
  double chance_ = 0;
  Vocabulary vocabulary_;
};

std::unique_ptr<Task> make(const TaskOptions& options) {
  if (options.data.empty())
    throw ConfigError("--data: missing; the text task needs a UTF-8 file to learn from");
  check_range("--block-size", options.block_size, 1, 1 << 20);
  const std::vector<char32_t> characters = read_characters(options.data);
  return std::make_unique<TextTask>(characters, distinct(characters), options);
}

}  // namespace

TaskEntry text_task() { return {"text", kDescription, make}; }

}  // namespace attune
