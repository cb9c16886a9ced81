#pragma once

#include <concepts>
#include <cstdint>

// Runs of elements of several workers' gradients; see train/training_step.h.
namespace attune::kernels {

// y += x
template <std::floating_point T>
void add_run(const T* x, T* y, std::int64_t count);

// sum of x^2, accumulated in double in a fixed order
template <std::floating_point T>
[[nodiscard]] double sum_of_squares_run(const T* x, std::int64_t count);

}  // namespace attune::kernels
