#include <algorithm>

#include "attune/nn/positional_encoding.h"

namespace attune {

PositionContext::Distances PositionContext::distances() const {
  if (query.values.empty() || key.values.empty()) return {0, 0};
  const auto [query_low, query_high] = std::ranges::minmax(query.values);
  const auto [key_low, key_high] = std::ranges::minmax(key.values);
  const std::int64_t first = std::int64_t{key_low} - query_high;
  return {first, std::int64_t{key_high} - query_low - first + 1};
}

}  // namespace attune
