#include <algorithm>

#include <fmt/format.h>

#include "task/option_checks.h"
#include "task/prompt_task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "Dyck-2: given the start of a well-formed bracket sequence, close what is open: ([]([=])).";
// Tokens "(", "[", ")", "]": the bracket that closes b is b + 2.
constexpr std::int32_t kKinds = 2;

// A start that can be completed: at each place an opening bracket of either kind or, where one is
// open, with probability 1/2 the bracket that closes the innermost.
std::size_t draw(std::int64_t size, RandomCursor& cursor, std::span<std::int32_t> prompt) {
  std::vector<std::int32_t> open;
  for (std::int32_t& token : prompt.first(static_cast<std::size_t>(size))) {
    if (!open.empty() && cursor.below(2) == 0) {
      token = open.back() + kKinds;
      open.pop_back();
    } else {
      token = static_cast<std::int32_t>(cursor.below(kKinds));
      open.push_back(token);
    }
  }
  return static_cast<std::size_t>(size);
}

// Empty where all are closed: then only the end token is asked.
std::size_t answer(std::span<const std::int32_t> prompt, std::span<std::int32_t> answer) {
  std::vector<std::int32_t> open;
  for (const std::int32_t token : prompt) {
    if (token < kKinds)
      open.push_back(token);
    else
      open.pop_back();
  }
  std::ranges::transform(open.rbegin(), open.rend(), answer.begin(),
                         [](std::int32_t token) { return token + kKinds; });
  return open.size();
}

// Mean number of open brackets, from the distribution of the depth after each place.
double mean_depth(std::int64_t min_length, std::int64_t max_length) {
  std::vector<double> probability(static_cast<std::size_t>(max_length) + 2, 0.0);
  probability[0] = 1;
  double sum = 0;
  for (std::int64_t length = 1; length <= max_length; ++length) {
    std::vector<double> next(probability.size(), 0.0);
    double mean = 0;
    next[1] = probability[0];
    for (std::size_t depth = 1; depth < static_cast<std::size_t>(length); ++depth) {
      next[depth - 1] += probability[depth] / 2;
      next[depth + 1] += probability[depth] / 2;
    }
    for (std::size_t depth = 0; depth < next.size(); ++depth)
      mean += next[depth] * static_cast<double>(depth);
    if (length >= min_length) sum += mean;
    probability.swap(next);
  }
  return sum / static_cast<double>(max_length - min_length + 1);
}

std::unique_ptr<Task> make(const TaskOptions& options) {
  check_length(options);
  PromptRule rule;
  rule.name = options.name;
  rule.description = kDescription;
  rule.options = length_text(options);
  rule.symbols = {"(", "[", ")", "]"};
  rule.min_size = options.min_length;
  rule.max_size = options.max_length;
  rule.longest_prompt = options.max_length;
  rule.longest_answer = options.max_length;
  // Of depth + 1 asked tokens one is the end, half of the others are ")".
  const double depth = mean_depth(options.min_length, options.max_length);
  rule.chance = std::max(1.0, depth / 2) / (depth + 1);
  rule.draw = draw;
  rule.answer = answer;
  return std::make_unique<PromptTask>(std::move(rule));
}

}  // namespace

TaskEntry brackets_task() { return {"brackets", kDescription, make}; }

}  // namespace attune
