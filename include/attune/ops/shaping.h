#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attune/autodiff/var.h"

// Ops that move elements and compute nothing.
namespace attune {

// The same elements, row-major, under another shape; one extent may be -1 and follows from the
// others. Shares storage.
[[nodiscard]] Var reshape(const Var& x, const Shape& shape);
[[nodiscard]] Var reshape(const Var& x, std::initializer_list<std::int64_t> extents);
// Axes in another order: result axis i is x's axis order[i].
[[nodiscard]] Var transpose(const Var& x, std::initializer_list<int> order);
// The last two axes swapped.
[[nodiscard]] Var transpose(const Var& x);
// [batch, time, heads * head_dim] -> [batch, heads, time, head_dim] and back.
[[nodiscard]] Var split_heads(const Var& x, std::int64_t heads);
[[nodiscard]] Var merge_heads(const Var& x);
// Elements [begin, end) of an axis. Throws ShapeError outside.
[[nodiscard]] Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);
// Side by side along an axis; all other extents equal. At least one part.
[[nodiscard]] Var concat(std::span<const Var> parts, int axis);
[[nodiscard]] Var concat(std::initializer_list<Var> parts, int axis);
// Repeats extents of 1 (NumPy broadcast_to).
[[nodiscard]] Var broadcast_to(const Var& x, const Shape& shape);

}  // namespace attune
