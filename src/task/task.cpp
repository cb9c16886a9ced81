#include "attune/task/task.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {

std::int64_t Batch::scored() const {
  return std::ranges::count_if(targets, [](std::int32_t target) { return target != kIgnore; });
}

Batch Batch::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > examples)
    throw ValueError(
        fmt::format("slice: [{}, {}) of a batch of {} examples", begin, end, examples));
  const auto from = begin * time;
  const auto to = end * time;
  return {end - begin,
          time,
          {tokens.begin() + from, tokens.begin() + to},
          {targets.begin() + from, targets.begin() + to}};
}

std::int64_t Task::count(Split) const { return 0; }

void Task::listed(Split, std::int64_t, std::span<std::int32_t>, std::span<std::int32_t>) const {
  throw UsageError(fmt::format("{}: this task does not list its examples", name()));
}

std::string Task::decode(std::span<const std::int32_t> tokens) const {
  const std::vector<std::string> texts = vocabulary_texts();
  const bool spaced = std::ranges::any_of(texts, [](const std::string& text) {
    std::optional<std::size_t> bad_offset;
    return decode_utf8(text, &bad_offset).size() > 1;
  });
  std::string result;
  for (const std::int32_t token : tokens) {
    if (spaced && !result.empty()) result += ' ';
    result += token_text(token);
  }
  return result;
}

std::vector<std::string> Task::vocabulary_texts() const {
  std::vector<std::string> texts;
  for (std::int64_t token = 0; token < vocabulary(); ++token)
    texts.push_back(token_text(static_cast<std::int32_t>(token)));
  return texts;
}

}  // namespace attune
