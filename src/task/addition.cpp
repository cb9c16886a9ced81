#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "task/option_checks.h"
#include "task/prompt_task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "add two numbers of --digits digits each: 57+68=125. (the last digit first with --reversed)";
constexpr std::int32_t kPlus = 10;

// Digits in writing order, both summands with leading zeros. The sum has one digit more.
void add(std::span<const std::int32_t> a, std::span<const std::int32_t> b,
         std::span<std::int32_t> sum) {
  std::int32_t carry = 0;
  for (std::size_t i = a.size(); i-- > 0;) {
    const std::int32_t column = a[i] + b[i] + carry;
    sum[i + 1] = column % 10;
    carry = column / 10;
  }
  sum[0] = carry;
}

// The lower digits of the sum are uniform; the leading one is 1 with probability (1 - 10^-digits) /
// 2, else 0. So the best single token is the end or, in long sums, 0.
double chance(std::int64_t digits) {
  const auto n = static_cast<double>(digits);
  const double zeros = n / 10 + (1 + std::pow(10.0, -n)) / 2;
  return std::max(1.0, zeros) / (n + 2);
}

std::unique_ptr<Task> make(const TaskOptions& options) {
  check_range("--digits", options.digits, 1, 100);
  PromptRule rule;
  rule.name = options.name;
  rule.description = kDescription;
  rule.options = fmt::format("--digits {}", options.digits);
  rule.symbols = symbol_texts(10);
  rule.symbols.emplace_back("+");
  rule.min_size = rule.max_size = options.digits;
  rule.longest_prompt = 2 * options.digits + 1;
  rule.longest_answer = options.digits + 1;
  rule.chance = chance(options.digits);
  rule.draw = [](std::int64_t size, RandomCursor& cursor, std::span<std::int32_t> prompt) {
    for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(cursor.below(10));
    prompt[static_cast<std::size_t>(size)] = kPlus;
    return prompt.size();
  };
  rule.answer = [reversed = options.reversed](std::span<const std::int32_t> prompt,
                                              std::span<std::int32_t> answer) {
    const std::size_t digits = prompt.size() / 2;
    add(prompt.first(digits), prompt.last(digits), answer);
    if (reversed) std::ranges::reverse(answer);
    return digits + 1;
  };
  return std::make_unique<PromptTask>(std::move(rule));
}

}  // namespace

TaskEntry addition_task() { return {"addition", kDescription, make}; }

}  // namespace attune
