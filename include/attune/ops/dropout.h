#pragma once

#include <cstdint>

#include "attune/autodiff/var.h"
#include "attune/core/random.h"

namespace attune {

// Sets each element to 0 with probability `rate` and multiplies the others by 1/(1 - rate)
// (inverted dropout; Srivastava et al. 2014). rate 0 returns x itself; rate 1 gives zeros. Throws
// ValueError outside [0, 1] or NaN. The bits are those of the stream at global coordinates: row r
// of x (all axes but the last) is row first_row + r, each row padded to a multiple of 4 numbers.
// They are kept for the backward pass.
[[nodiscard]] Var dropout(const Var& x, double rate, const RandomStream& stream,
                          std::int64_t first_row = 0);

}  // namespace attune
