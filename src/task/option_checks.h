#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attune/task/task.h"

namespace attune {

// Throw ConfigError naming the option as on the command line, the value found and what was
// expected.
void check_range(std::string_view option, std::int64_t value, std::int64_t low, std::int64_t high);
void check_length(const TaskOptions& options);

// "--length 1..12"
[[nodiscard]] std::string length_text(const TaskOptions& options);

inline constexpr std::int64_t kMostSymbols = 65536;

// Texts of n symbols: digits, then small and capital letters; above 62 the numbers from 0.
[[nodiscard]] std::vector<std::string> symbol_texts(std::int64_t count);

}  // namespace attune
