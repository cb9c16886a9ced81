#include "model/option_domain.h"

#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {

void require_between(std::string_view option, std::int64_t value, std::int64_t low,
                     std::int64_t high) {
  if (value < low || value > high) {
    throw ConfigError(fmt::format("{}: {} is outside {} to {}", option, value, low, high));
  }
}

void require_between(std::string_view option, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw ConfigError(fmt::format("{}: {} is outside {} to {}", option, format_float(value),
                                  format_float(low), format_float(high)));
  }
}

void require_below_one(std::string_view option, double value) {
  if (!(value >= 0 && value < 1)) {
    throw ConfigError(fmt::format("{}: {} is not in [0, 1)", option, format_float(value)));
  }
}

void require_not_negative(std::string_view option, double value) {
  if (!(value >= 0) || !std::isfinite(value)) {
    throw ConfigError(
        fmt::format("{}: {} is not a finite number of at least 0", option, format_float(value)));
  }
}

void require_one_of(std::string_view option, std::string_view value,
                    std::span<const std::string> known) {
  std::string list;
  for (const std::string& name : known) {
    if (name == value) return;
    list += (list.empty() ? "" : ", ") + name;
  }
  throw ConfigError(fmt::format("{}: '{}' is unknown{} (known: {})", option, value,
                                did_you_mean(value, known), list));
}

}  // namespace attune
