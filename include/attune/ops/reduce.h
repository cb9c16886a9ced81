#pragma once

#include "attune/autodiff/var.h"

namespace attune {

// Over all elements -> [].
[[nodiscard]] Var sum(const Var& x);
[[nodiscard]] Var mean(const Var& x);  // of an empty array: 0
// Over one axis (negative: from the end); it stays with extent 1 where keep is set.
[[nodiscard]] Var sum(const Var& x, int axis, bool keep = false);
[[nodiscard]] Var mean(const Var& x, int axis, bool keep = false);
// The largest element; its gradient goes to the first of the largest. NaN propagates. Throws
// ShapeError for an empty axis.
[[nodiscard]] Var max(const Var& x, int axis, bool keep = false);
// Running sum along an axis: y_i = sum_{j <= i} x_j; from the end where reverse is set.
[[nodiscard]] Var cumsum(const Var& x, int axis, bool reverse = false);
// ln sum e^x over one axis, without overflow; all -inf gives -inf with gradient 0.
[[nodiscard]] Var logsumexp(const Var& x, int axis, bool keep = false);

}  // namespace attune
