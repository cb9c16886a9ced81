#pragma once

#include <cstdint>

#include "attune/array/array.h"
#include "attune/core/random.h"

namespace attune::kernels {

struct Dropout {
  Array y;
  Array factor;  // of x's shape: 0 where x was dropped, else 1 / (1 - rate)
};
// y = x factor, and exactly 0 where factor is 0. An element is dropped where its 32 random bits are
// below rate 2^32. Those of row r (all axes but the last), column c are word c % 4 of
// stream.bits((first_row + r) ceil(columns / 4) + c / 4). 0 <= rate <= 1.
[[nodiscard]] Dropout dropout(const Array& x, double rate, const RandomStream& stream,
                              std::int64_t first_row);
// dx = dy factor, and exactly 0 where factor is 0.
[[nodiscard]] Array dropout_backward(const Array& factor, const Array& dy);

}  // namespace attune::kernels
