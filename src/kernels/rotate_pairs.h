#pragma once

#include <cstdint>

#include "attune/array/array.h"

namespace attune::kernels {

// How the features of a head pair up: (k, k + rotated/2), or (2k, 2k + 1).
enum class Pairing : bool { half_split, interleaved };

// x: [batch, time, heads * head_dim]; cosines, sines: [1 or batch, time, rotated / 2], rotated <=
// head_dim even. For pair k of each head, with c, s = cos, sin of its angle:
//   y_a = c x_a - s x_b
//   y_b = s x_a + c x_b
// Features from `rotated` on are copied.
[[nodiscard]] Array rotate_pairs(const Array& x, std::int64_t heads, const Array& cosines,
                                 const Array& sines, Pairing pairing);
// The gradient turns back, by the negative angles:
//   dx_a = c dy_a + s dy_b
//   dx_b = -s dy_a + c dy_b
[[nodiscard]] Array rotate_pairs_backward(const Array& dy, std::int64_t heads, const Array& cosines,
                                          const Array& sines, Pairing pairing);

}  // namespace attune::kernels
