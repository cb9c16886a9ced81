#include "task/option_checks.h"

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune {
namespace {

constexpr std::int64_t kLongest = 4096;
constexpr std::string_view kCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

}  // namespace

void check_range(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high)
    throw ConfigError(fmt::format("{}: {} is not between {} and {}", option, value, low, high));
}

void check_length(const TaskOptions& options) {
  if (options.min_length < 1 || options.max_length < options.min_length ||
      options.max_length > kLongest)
    throw ConfigError(fmt::format("--length: {}..{}, expected MIN..MAX with 1 <= MIN <= MAX <= {}",
                                  options.min_length, options.max_length, kLongest));
}

std::string length_text(const TaskOptions& options) {
  return fmt::format("--length {}..{}", options.min_length, options.max_length);
}

std::vector<std::string> symbol_texts(std::int64_t count) {
  const bool characters = count <= static_cast<std::int64_t>(kCharacters.size());
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < count; ++i)
    texts.push_back(characters ? std::string(1, kCharacters[static_cast<std::size_t>(i)])
                               : std::to_string(i));
  return texts;
}

}  // namespace attune
