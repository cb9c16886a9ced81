#pragma once

#include <utility>

#include "attune/array/array.h"

namespace attune::kernels {

// Where a result of x's shape goes that may overwrite x: x's own storage where nobody else holds
// it. Take a pointer to x's elements before the call; it stays good until the result is gone.
[[nodiscard]] inline Array reuse(Array& x) {
  return x.is_shared() ? Array::uninitialized(x.shape(), x.dtype()) : std::move(x);
}

}  // namespace attune::kernels
