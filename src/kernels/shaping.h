#pragma once

#include <cstdint>
#include <span>

#include "attune/array/array.h"

// Movement of elements. Axes count from 0.
namespace attune::kernels {

// y's axis i is x's axis order[i]; `order` is a permutation.
[[nodiscard]] Array transpose(const Array& x, std::span<const int> order);
// Elements [begin, end) of an axis.
[[nodiscard]] Array slice(const Array& x, std::size_t axis, std::int64_t begin, std::int64_t end);
// dx[.., begin + i, ..] += dy[.., i, ..]
void slice_backward(const Array& dy, std::size_t axis, std::int64_t begin, Array& dx);
// y[.., begin + i, ..] = part[.., i, ..]: one part of a concatenation.
void paste(const Array& part, std::size_t axis, std::int64_t begin, Array& y);
// x repeated to `shape`. Throws ShapeError where it does not broadcast.
[[nodiscard]] Array broadcast_to(const Array& x, const Shape& shape);
void fill_zero(Array& x);

}  // namespace attune::kernels
