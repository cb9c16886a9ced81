#include "task/prompt_task.h"

#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "task/split.h"

namespace attune {
namespace {

// A size with few examples has at least one in 50 of them in validation or none; to miss that one
// this often in a row has a probability below 1e-17. Large sizes meet a tenth.
constexpr int kTries = 2000;

}  // namespace

PromptTask::PromptTask(PromptRule rule)
    : rule_(std::move(rule)),
      format_(rule_.symbols, static_cast<std::size_t>(rule_.longest_prompt),
              static_cast<std::size_t>(rule_.longest_answer)) {
  for (const Split split : {Split::train, Split::validation})
    sizes_[static_cast<std::size_t>(split)] = stand_ins(split);
}

void PromptTask::draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
                      std::span<std::int32_t> targets) const {
  format_.check(rule_.name, tokens, targets);
  const auto drawn = static_cast<std::size_t>(cursor.between(0, rule_.max_size - rule_.min_size));
  const std::int64_t size = sizes_[static_cast<std::size_t>(split)][drawn];
  const std::size_t prompt_size = find_prompt(split, size, cursor, format_.prompt(tokens));
  if (prompt_size == 0) throw_empty(split);
  const std::size_t answer_size =
      rule_.answer(tokens.first(prompt_size), format_.answer(tokens, prompt_size));
  format_.finish(prompt_size, answer_size, tokens, targets);
}

std::size_t PromptTask::find_prompt(Split split, std::int64_t size, RandomCursor& cursor,
                                    std::span<std::int32_t> prompt) const {
  for (int tries = 0; tries < kTries; ++tries) {
    const std::size_t prompt_size = rule_.draw(size, cursor, prompt);
    if (split_of(prompt.first(prompt_size)) == split) return prompt_size;
  }
  return 0;
}

std::vector<std::int64_t> PromptTask::stand_ins(Split split) const {
  const auto sizes = static_cast<std::size_t>(rule_.max_size - rule_.min_size + 1);
  std::vector<std::int64_t> result(sizes, 0);
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(rule_.longest_prompt));
  for (std::size_t i = 0; i < sizes; ++i) {
    const std::int64_t size = rule_.min_size + static_cast<std::int64_t>(i);
    RandomCursor cursor(Randomness{}.stream("task.split"), static_cast<std::uint32_t>(i));
    if (find_prompt(split, size, cursor, prompt) > 0) result[i] = size;
  }
  // Twice from the end, so that the smallest can stand in for the largest.
  std::int64_t next = 0;
  for (std::size_t i = 2 * sizes; i-- > 0;) {
    std::int64_t& size = result[i % sizes];
    if (size == 0) size = next;
    next = size;
  }
  if (next == 0) throw_empty(split);
  return result;
}

void PromptTask::throw_empty(Split split) const {
  throw ConfigError(fmt::format("{} {}: too few examples, none is left for the {} split",
                                rule_.name, rule_.options, to_string(split)));
}

}  // namespace attune
