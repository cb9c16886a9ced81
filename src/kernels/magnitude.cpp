#include "kernels/magnitude.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace attune::kernels {
namespace {

// IEEE 754 numbers without their sign are ordered as the integers of the same bits, with infinity
// and NaN above all finite ones: one maximum tells both.
template <class T>
auto largest_bits(std::span<const T> x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kNoSign = std::numeric_limits<Bits>::max() >> 1;
  const T* data = x.data();
  const auto count = static_cast<std::int64_t>(x.size());
  Bits largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, static_cast<Bits>(std::bit_cast<Bits>(data[i]) & kNoSign));
  return largest;
}

template <class T>
Magnitude counted(std::span<const T> x) {
  Magnitude result;
  for (const T value : x) {
    if (std::isnan(value)) {
      ++result.nans;
    } else if (std::isinf(value)) {
      ++(value > 0 ? result.positive_infinities : result.negative_infinities);
    } else {
      result.largest = std::max(result.largest, std::abs(static_cast<double>(value)));
    }
  }
  return result;
}

}  // namespace

Magnitude magnitude(const Array& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const std::span<const T> data = x.data<T>();
    const T largest = std::bit_cast<T>(largest_bits(data));
    return std::isfinite(largest) ? Magnitude{.largest = static_cast<double>(largest)}
                                  : counted(data);
  });
}

}  // namespace attune::kernels
