#pragma once

#include <cstdint>
#include <vector>

#include "attune/core/random.h"

namespace attune {

// The integer position of every token: what positional encodings see instead of an index. One row
// for all examples, or one row each (left-padded batches, documents in one window).
struct Positions {
  std::int64_t batch = 1;  // 1 or the number of examples
  std::int64_t time = 0;
  std::vector<std::int32_t> values;  // [batch, time]

  // first, first + 1, ...
  [[nodiscard]] static Positions range(std::int64_t first, std::int64_t count);
  // `count` of the positions [0, limit), sorted, every subset equally likely. Throws ValueError
  // where there are fewer.
  [[nodiscard]] static Positions sample(std::int64_t count, std::int64_t limit,
                                        const RandomStream& stream);
  // Row b; the only row where batch is 1.
  [[nodiscard]] const std::int32_t* row(std::int64_t b) const {
    return values.data() + (batch == 1 ? 0 : b * time);
  }
  // These followed by `more`, row by row.
  [[nodiscard]] Positions followed_by(const Positions& more) const;
  [[nodiscard]] bool operator==(const Positions&) const = default;
};

}  // namespace attune
