// copy, reverse and sort: the answer holds the symbols of the prompt in another order.

#include <algorithm>

#include <fmt/format.h>

#include "task/option_checks.h"
#include "task/prompt_task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

using Tokens = std::span<std::int32_t>;
using ConstTokens = std::span<const std::int32_t>;

constexpr std::string_view kCopy = "say a sequence again: 312=312.";
constexpr std::string_view kReverse = "say a sequence from its end: 312=213.";
constexpr std::string_view kSort = "sort a sequence, repeats included: 3121=1123.";

void copy(ConstTokens from, Tokens to) { std::ranges::copy(from, to.begin()); }
void reverse(ConstTokens from, Tokens to) { std::ranges::reverse_copy(from, to.begin()); }
void sort(ConstTokens from, Tokens to) {
  copy(from, to);
  std::ranges::sort(to.first(from.size()));
}

std::unique_ptr<Task> make(const TaskOptions& options, std::string_view description,
                           void (*arrange)(ConstTokens, Tokens)) {
  check_length(options);
  check_range("--symbols", options.symbols, 1, kMostSymbols);
  const auto symbols = static_cast<std::uint32_t>(options.symbols);
  const double mean_length = static_cast<double>(options.min_length + options.max_length) / 2;
  PromptRule rule;
  rule.name = options.name;
  rule.description = description;
  rule.options = fmt::format("{} --symbols {}", length_text(options), symbols);
  rule.symbols = symbol_texts(symbols);
  rule.min_size = options.min_length;
  rule.max_size = options.max_length;
  rule.longest_prompt = options.max_length;
  rule.longest_answer = options.max_length;
  // Of mean_length + 1 asked tokens one is the end, the others are equally often each symbol.
  rule.chance = std::max(1.0, mean_length / symbols) / (mean_length + 1);
  rule.draw = [symbols](std::int64_t size, RandomCursor& cursor, Tokens prompt) {
    const auto length = static_cast<std::size_t>(size);
    for (std::int32_t& token : prompt.first(length))
      token = static_cast<std::int32_t>(cursor.below(symbols));
    return length;
  };
  rule.answer = [arrange](ConstTokens prompt, Tokens answer) {
    arrange(prompt, answer);
    return prompt.size();
  };
  return std::make_unique<PromptTask>(std::move(rule));
}

}  // namespace

TaskEntry copy_task() {
  return {"copy", kCopy, [](const TaskOptions& options) { return make(options, kCopy, copy); }};
}

TaskEntry reverse_task() {
  return {"reverse", kReverse,
          [](const TaskOptions& options) { return make(options, kReverse, reverse); }};
}

TaskEntry sort_task() {
  return {"sort", kSort, [](const TaskOptions& options) { return make(options, kSort, sort); }};
}

}  // namespace attune
