#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/task/vocabulary.h"

namespace attune {

// How a question and its answer become one example. The sequence is
//   prompt '=' answer '.'
// tokens are that sequence without its last, targets the same shifted by one: asked from '=' on
// (the answer, then the end), kIgnore before. Both are padded on the right, tokens with '_'.
class PromptFormat final {
 public:
  // The symbols are tokens 0 .. n-1; '=', '.' and '_' follow them.
  PromptFormat(std::vector<std::string> symbols, std::size_t longest_prompt,
               std::size_t longest_answer);

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] std::size_t time() const { return longest_prompt_ + 1 + longest_answer_; }
  // Throws ShapeError where the two do not hold time() numbers each.
  void check(std::string_view task, std::span<const std::int32_t> tokens,
             std::span<const std::int32_t> targets) const;

  // Where the parts are to be written before finish() is called: `tokens` is the example's.
  [[nodiscard]] std::span<std::int32_t> prompt(std::span<std::int32_t> tokens) const;
  [[nodiscard]] std::span<std::int32_t> answer(std::span<std::int32_t> tokens,
                                               std::size_t prompt_size) const;
  // Separator, end, padding and targets around a prompt and an answer of these sizes.
  void finish(std::size_t prompt_size, std::size_t answer_size, std::span<std::int32_t> tokens,
              std::span<std::int32_t> targets) const;

 private:
  std::size_t longest_prompt_;
  std::size_t longest_answer_;
  std::int32_t separator_;
  std::int32_t end_;
  std::int32_t padding_;
  Vocabulary vocabulary_;
};

}  // namespace attune
