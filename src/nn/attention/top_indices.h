#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attune/array/array.h"

namespace attune {

// Where the `count` largest of a row of scores stand, ascending; of equals the first; NaN is as
// large as infinity. A row is one of the last axis. Where `keep` is not empty, only what it keeps
// counts, and there may be fewer than `count`.
[[nodiscard]] std::vector<std::int32_t> top_indices(const Array& scores, std::int64_t row,
                                                    std::int64_t count,
                                                    std::span<const std::uint8_t> keep = {});

}  // namespace attune
