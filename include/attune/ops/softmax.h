#pragma once

#include "attune/autodiff/var.h"

namespace attune {

// y_j = e^(x_j - m) / sum_k e^(x_k - m), m = max x, over the last axis. A row of -inf gives a row
// of 0 with gradient 0.
[[nodiscard]] Var softmax(const Var& x);
// The same over the keys that `keep` (0/1, broadcasts against x) keeps, exactly 0 elsewhere; a row
// that keeps none is 0 with gradient 0. What is not kept may be NaN.
[[nodiscard]] Var masked_softmax(const Var& x, const Array& keep);
// ln softmax(x) over the last axis, stable.
[[nodiscard]] Var log_softmax(const Var& x);

}  // namespace attune
