#include "attune/ops/dropout.h"

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "kernels/dropout.h"

namespace attune {

Var dropout(const Var& x, double rate, const RandomStream& stream, std::int64_t first_row) {
  if (!(rate >= 0 && rate <= 1))
    throw ValueError(fmt::format("dropout: rate {} is outside [0, 1]", rate));
  if (first_row < 0) throw ValueError(fmt::format("dropout: first_row {} is negative", first_row));
  if (rate == 0) return x;
  kernels::Dropout result = kernels::dropout(x.value(), rate, stream, first_row);
  return record("dropout", {x}, result.y,
                [factor = result.factor](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::dropout_backward(factor, dy));
                });
}

}  // namespace attune
