#include "attune/nn/positions.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "attune/core/error.h"

namespace attune {

Positions Positions::range(std::int64_t first, std::int64_t count) {
  Positions positions{1, count, std::vector<std::int32_t>(static_cast<std::size_t>(count))};
  std::iota(positions.values.begin(), positions.values.end(), static_cast<std::int32_t>(first));
  return positions;
}

// Floyd's algorithm (Bentley & Floyd 1987): one draw for each that is chosen.
Positions Positions::sample(std::int64_t count, std::int64_t limit, const RandomStream& stream) {
  if (count > limit) {
    throw ValueError("positions: " + std::to_string(count) +
                     " tokens do not fit into --random-positions " + std::to_string(limit));
  }
  RandomCursor cursor(stream, 0);
  std::vector<bool> is_chosen(static_cast<std::size_t>(limit), false);
  for (std::int64_t last = limit - count; last < limit; ++last) {
    const std::size_t drawn = cursor.below(static_cast<std::uint32_t>(last + 1));
    is_chosen[is_chosen[drawn] ? static_cast<std::size_t>(last) : drawn] = true;
  }
  Positions positions{1, count, {}};
  for (std::size_t p = 0; p < is_chosen.size(); ++p) {
    if (is_chosen[p]) positions.values.push_back(static_cast<std::int32_t>(p));
  }
  return positions;
}

Positions Positions::followed_by(const Positions& more) const {
  if (time == 0) return more;
  if (more.time == 0) return *this;
  const std::int64_t rows = std::max(batch, more.batch);
  if ((batch != 1 && batch != rows) || (more.batch != 1 && more.batch != rows)) {
    throw ShapeError("positions: rows for " + std::to_string(batch) + " and " +
                     std::to_string(more.batch) + " examples do not fit each other");
  }
  Positions joined{rows, time + more.time, {}};
  joined.values.reserve(static_cast<std::size_t>(rows * joined.time));
  for (std::int64_t b = 0; b < rows; ++b) {
    joined.values.insert(joined.values.end(), row(b), row(b) + time);
    joined.values.insert(joined.values.end(), more.row(b), more.row(b) + more.time);
  }
  return joined;
}

}  // namespace attune
