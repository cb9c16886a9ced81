#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attune/task/task.h"
#include "task/prompt_format.h"

namespace attune {

// All there is to say about one task of questions and answers.
struct PromptRule {
  std::string name;
  std::string description;
  std::string options;               // as on the command line, for error texts
  std::vector<std::string> symbols;  // token texts; PromptFormat adds its marks
  // The size of a question is drawn from [min_size, max_size]; what it counts is the rule's own.
  std::int64_t min_size = 1;
  std::int64_t max_size = 1;
  std::int64_t longest_prompt = 1;
  std::int64_t longest_answer = 1;
  double chance = 0;
  // Writes a random prompt of a size and returns its number of tokens.
  std::function<std::size_t(std::int64_t size, RandomCursor&, std::span<std::int32_t> prompt)> draw;
  // Writes the answer to a prompt and returns its number of tokens.
  std::function<std::size_t(std::span<const std::int32_t> prompt, std::span<std::int32_t> answer)>
      answer;
};

// A task of questions and answers, split by a hash of the prompt.
//
// A draw fixes the size first and then draws prompts of that size until one lies in its split, so
// both splits have the same distribution of sizes. The one exception are sizes that have no example
// in a split, because they have few in all (copy of one symbol out of ten): the next larger size
// that has some stands in for them there, after the largest the smallest.
class PromptTask final : public Task {
 public:
  // Throws ConfigError where no size has an example of one of the splits.
  explicit PromptTask(PromptRule rule);

  [[nodiscard]] std::string_view name() const override { return rule_.name; }
  [[nodiscard]] std::string_view description() const override { return rule_.description; }
  [[nodiscard]] std::int64_t vocabulary() const override { return format_.vocabulary().size(); }
  [[nodiscard]] std::int64_t time() const override {
    return static_cast<std::int64_t>(format_.time());
  }
  [[nodiscard]] double chance() const override { return rule_.chance; }
  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override;
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return format_.vocabulary().text(token);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override {
    return format_.vocabulary().decode(tokens);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override {
    return format_.vocabulary().encode(text);
  }

 private:
  // Draws prompts of one size until one lies in the split; 0 after too many that do not.
  [[nodiscard]] std::size_t find_prompt(Split split, std::int64_t size, RandomCursor& cursor,
                                        std::span<std::int32_t> prompt) const;
  // [size - min_size] -> the size that is drawn in its place.
  [[nodiscard]] std::vector<std::int64_t> stand_ins(Split split) const;
  [[noreturn]] void throw_empty(Split split) const;

  PromptRule rule_;
  PromptFormat format_;
  std::array<std::vector<std::int64_t>, 2> sizes_;  // by split
};

}  // namespace attune
