#pragma once

#include <cstdint>

#include "attune/array/array.h"

namespace attune::kernels {

// How large the elements of an array are, and whether they are numbers.
struct Magnitude {
  double largest = 0;  // |x| over the finite elements; 0 without any
  std::int64_t nans = 0;
  std::int64_t positive_infinities = 0;
  std::int64_t negative_infinities = 0;

  [[nodiscard]] std::int64_t nonfinite() const {
    return nans + positive_infinities + negative_infinities;
  }
};

// One pass over the elements where all are finite, at the speed of reading them; two otherwise.
[[nodiscard]] Magnitude magnitude(const Array& x);

}  // namespace attune::kernels
