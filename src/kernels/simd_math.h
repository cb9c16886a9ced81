#pragma once

#include <concepts>
#include <cstdint>

// Vectorised transcendental functions over n elements, for T = float and double. y may be x,
// otherwise they do not overlap. A result does not depend on the element's place in the array. NaN
// stays NaN, infinities give the limits. Largest errors in units in the last place are stated by
// tests/kernels/simd_math_test.cpp.
namespace attune::kernels {

template <std::floating_point T>
void exp_into(const T* x, T* y, std::int64_t n);  // exp(-inf) = 0; overflow gives +inf
template <std::floating_point T>
void log_into(const T* x, T* y, std::int64_t n);  // log(0) = -inf; negative gives NaN
template <std::floating_point T>
void tanh_into(const T* x, T* y, std::int64_t n);
template <std::floating_point T>
void erf_into(const T* x, T* y, std::int64_t n);
template <std::floating_point T>
void sigmoid_into(const T* x, T* y,
                  std::int64_t n);  // 1 / (1 + e^-x), to full relative accuracy on both sides

}  // namespace attune::kernels
