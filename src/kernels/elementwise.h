#pragma once

#include <concepts>
#include <cstdint>

#include "attune/array/array.h"

// What gradients are accumulated and measured with.
namespace attune::kernels {

// a += b; equal shapes and dtypes, a unshared.
void add_into(Array& a, const Array& b);

// The reverse of broadcasting: x summed over the axes along which `shape` was repeated to become
// x's shape. Accumulates in double, in a fixed order. Throws ShapeError where `shape` does not
// broadcast to x's.
[[nodiscard]] Array sum_to(const Array& x, const Shape& shape);

// x: [outer, extent, inner] -> y: [outer, inner], summed over the middle in double and multiplied
// by the factor.
template <std::floating_point T>
void sum_middle(const T* x, std::int64_t outer, std::int64_t extent, std::int64_t inner, T* y,
                double factor = 1);

// Sum of all elements (of their squares), accumulated in double in a fixed order.
[[nodiscard]] double sum_all(const Array& x);
[[nodiscard]] double sum_of_squares(const Array& x);

// The same for runs of elements: y += x, and the sum of squares.
template <std::floating_point T>
void add_run(const T* x, T* y, std::int64_t count);
template <std::floating_point T>
[[nodiscard]] double sum_of_squares_run(const T* x, std::int64_t count);
// sum (x - y)^2, the difference taken in double.
template <std::floating_point T>
[[nodiscard]] double sum_of_square_differences_run(const T* x, const T* y, std::int64_t count);
// largest = max(largest, |x|), element by element; what is no number changes nothing.
template <std::floating_point T>
void largest_magnitude_run(const T* x, T* largest, std::int64_t count);

// No NaN and no infinity among the elements.
[[nodiscard]] bool all_finite(const Array& x);

}  // namespace attune::kernels
