#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "task/option_checks.h"
#include "task/prompt_task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

constexpr std::string_view kDescription =
    "associative recall: pairs of key and value; say them again in the order of the keys: "
    "c1a3b3=a3b3c1.";
constexpr std::int64_t kLetters = 26;

// Keys and values share no token. Keys are small letters, values digits or capital letters; where
// letters do not suffice, k0 k1 ... and v0 v1 ...
std::vector<std::string> texts(std::int64_t symbols) {
  std::vector<std::string> result;
  const auto append = [&](char first, char prefix) {
    for (std::int64_t i = 0; i < symbols; ++i)
      result.push_back(symbols <= kLetters
                           ? std::string(1, static_cast<char>(first + static_cast<char>(i)))
                           : fmt::format("{}{}", prefix, i));
  };
  append('a', 'k');
  append(symbols <= 10 ? '0' : 'A', 'v');
  return result;
}

// key value key value ...; keys are 0 .. symbols-1, all different, values follow them.
std::size_t draw(std::uint32_t symbols, std::int64_t pairs, RandomCursor& cursor,
                 std::span<std::int32_t> prompt) {
  const auto size = 2 * static_cast<std::size_t>(pairs);
  for (std::size_t i = 0; i < size; i += 2) {
    const auto is_new = [&](std::int32_t key) {
      for (std::size_t before = 0; before < i; before += 2)
        if (prompt[before] == key) return false;
      return true;
    };
    do prompt[i] = static_cast<std::int32_t>(cursor.below(symbols));
    while (!is_new(prompt[i]));
    prompt[i + 1] = static_cast<std::int32_t>(symbols + cursor.below(symbols));
  }
  return size;
}

// Every key is a query for its value. One query an example would be the purer task, but it says so
// little about what is wrong that small models stay at guessing among the values they saw.
std::size_t answer(std::span<const std::int32_t> prompt, std::span<std::int32_t> answer) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::size_t i = 0; i < prompt.size(); i += 2) pairs.emplace_back(prompt[i], prompt[i + 1]);
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    answer[2 * i] = pairs[i].first;
    answer[2 * i + 1] = pairs[i].second;
  }
  return prompt.size();
}

std::unique_ptr<Task> make(const TaskOptions& options) {
  check_length(options);
  check_range("--symbols", options.symbols, 1, kMostSymbols);
  if (options.max_length > options.symbols)
    throw ConfigError(fmt::format("--length: up to {} pairs need as many keys but --symbols is {}",
                                  options.max_length, options.symbols));
  PromptRule rule;
  rule.name = options.name;
  rule.description = kDescription;
  rule.options = fmt::format("{} --symbols {}", length_text(options), options.symbols);
  rule.symbols = texts(options.symbols);
  rule.min_size = options.min_length;
  rule.max_size = options.max_length;
  rule.longest_prompt = rule.longest_answer = 2 * options.max_length;
  // The end token: one in an answer of two tokens a pair and itself; no key or value is there more
  // often.
  rule.chance = 1.0 / static_cast<double>(options.min_length + options.max_length + 1);
  rule.draw = [symbols = static_cast<std::uint32_t>(options.symbols)](
                  std::int64_t size, RandomCursor& cursor, std::span<std::int32_t> prompt) {
    return draw(symbols, size, cursor, prompt);
  };
  rule.answer = answer;
  return std::make_unique<PromptTask>(std::move(rule));
}

}  // namespace

TaskEntry recall_task() { return {"recall", kDescription, make}; }

}  // namespace attune
