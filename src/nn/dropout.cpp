#include "attune/nn/dropout.h"

#include <algorithm>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/ops/dropout.h"

namespace attune {

Dropout::Dropout(const Scope& scope, double rate) : path_(scope.path()), rate_(rate) {
  if (!(rate >= 0 && rate <= 1)) {
    throw ConfigError("--dropout: " + format_float(rate) + " is outside [0, 1]");
  }
}

Var Dropout::operator()(const Var& x, const Pass& pass) const {
  if (!pass.training || rate_ == 0) return x;
  const std::int64_t rows_per_example =
      x.shape().rank() < 2 ? 1 : x.shape().rows() / std::max<std::int64_t>(x.shape()[0], 1);
  return dropout(x, rate_, pass.random.stream(path_), pass.first_example * rows_per_example);
}

}  // namespace attune
