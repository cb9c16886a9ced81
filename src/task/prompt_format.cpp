#include "task/prompt_format.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/task/task.h"

namespace attune {
namespace {

std::vector<std::string> with_marks(std::vector<std::string> symbols) {
  symbols.insert(symbols.end(), {"=", ".", "_"});
  return symbols;
}

}  // namespace

PromptFormat::PromptFormat(std::vector<std::string> symbols, std::size_t longest_prompt,
                           std::size_t longest_answer)
    : longest_prompt_(longest_prompt),
      longest_answer_(longest_answer),
      separator_(static_cast<std::int32_t>(symbols.size())),
      end_(separator_ + 1),
      padding_(separator_ + 2),
      vocabulary_(with_marks(std::move(symbols)), Vocabulary::Spelling::symbols) {}

void PromptFormat::check(std::string_view task, std::span<const std::int32_t> tokens,
                         std::span<const std::int32_t> targets) const {
  if (tokens.size() != time() || targets.size() != time())
    throw ShapeError(fmt::format("{}: room for {} tokens and {} targets but an example has {}",
                                 task, tokens.size(), targets.size(), time()));
}

std::span<std::int32_t> PromptFormat::prompt(std::span<std::int32_t> tokens) const {
  return tokens.first(longest_prompt_);
}

std::span<std::int32_t> PromptFormat::answer(std::span<std::int32_t> tokens,
                                             std::size_t prompt_size) const {
  return tokens.subspan(prompt_size + 1, longest_answer_);
}

void PromptFormat::finish(std::size_t prompt_size, std::size_t answer_size,
                          std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const {
  const std::size_t used = prompt_size + 1 + answer_size;
  tokens[prompt_size] = separator_;
  std::ranges::fill(tokens.subspan(used), padding_);
  std::ranges::fill(targets.first(prompt_size), kIgnore);
  std::ranges::copy(tokens.subspan(prompt_size + 1, answer_size),
                    targets.subspan(prompt_size).begin());
  targets[used - 1] = end_;
  std::ranges::fill(targets.subspan(used), kIgnore);
}

}  // namespace attune
