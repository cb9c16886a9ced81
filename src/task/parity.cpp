#include <fmt/format.h>

#include "task/option_checks.h"
#include "task/prompt_task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription = "whether the number of ones is odd: 10110=1.";

std::unique_ptr<Task> make(const TaskOptions& options) {
  check_length(options);
  PromptRule rule;
  rule.name = options.name;
  rule.description = kDescription;
  rule.options = length_text(options);
  rule.symbols = symbol_texts(2);
  rule.min_size = options.min_length;
  rule.max_size = options.max_length;
  rule.longest_prompt = options.max_length;
  rule.longest_answer = 1;
  rule.chance = 0.5;  // the end token
  rule.draw = [](std::int64_t size, RandomCursor& cursor, std::span<std::int32_t> prompt) {
    const auto length = static_cast<std::size_t>(size);
    for (std::int32_t& token : prompt.first(length))
      token = static_cast<std::int32_t>(cursor.below(2));
    return length;
  };
  rule.answer = [](std::span<const std::int32_t> prompt, std::span<std::int32_t> answer) {
    std::int32_t parity = 0;
    for (const std::int32_t bit : prompt) parity ^= bit;
    answer[0] = parity;
    return std::size_t{1};
  };
  return std::make_unique<PromptTask>(std::move(rule));
}

}  // namespace

TaskEntry parity_task() { return {"parity", kDescription, make}; }

}  // namespace attune
