#include "attune/observe/distinct_tokens.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {
namespace {

class DistinctTokens final : public Task {
 public:
  DistinctTokens(std::int64_t vocabulary, std::int64_t time)
      : vocabulary_(std::max(vocabulary, time)), time_(time) {}

  std::string_view name() const override { return "distinct tokens"; }
  std::string_view description() const override {
    return "different tokens in random order, random targets";
  }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int64_t time() const override { return time_; }
  double chance() const override { return 1 / static_cast<double>(vocabulary_); }
  bool has_answers() const override { return false; }

  void draw(Split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    std::vector<std::int32_t> all(static_cast<std::size_t>(vocabulary_));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto left = static_cast<std::uint32_t>(all.size() - i);
      std::swap(all[i], all[i + cursor.below(left)]);
      tokens[i] = all[i];
      targets[i] = static_cast<std::int32_t>(cursor.below(static_cast<std::uint32_t>(vocabulary_)));
    }
  }

  std::string token_text(std::int32_t token) const override {
    if (token < 0 || token >= vocabulary_)
      throw ValueError(fmt::format("token {} is outside [0, {})", token, vocabulary_));
    return std::to_string(token);
  }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(' ', begin), text.size());
      const auto token = parse_integer(text.substr(begin, end - begin));
      if (!token || *token < 0 || *token >= vocabulary_)
        throw ValueError(fmt::format("'{}' is no token", text.substr(begin, end - begin)));
      tokens.push_back(static_cast<std::int32_t>(*token));
      begin = end + 1;
    }
    return tokens;
  }

 private:
  std::int64_t vocabulary_;
  std::int64_t time_;
};

}  // namespace

std::unique_ptr<Task> distinct_tokens(std::int64_t vocabulary, std::int64_t time) {
  if (vocabulary < 1 || time < 1)
    throw ValueError(fmt::format("distinct tokens: {} tokens out of {}", time, vocabulary));
  return std::make_unique<DistinctTokens>(vocabulary, time);
}

}  // namespace attune
