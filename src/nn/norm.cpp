#include "attune/nn/norm.h"

#include "attune/ops/arithmetic.h"

namespace attune {

Norm::Norm(const Scope& scope, NormKind kind, std::int64_t width, bool shift)
    : path_(scope.path()), kind_(kind) {
  if (kind == NormKind::none) return;
  gain_ = &scope.parameter("gain", {width}, Initializer::constant(1), {.decays = false});
  if (shift && kind == NormKind::layernorm) {
    shift_ = &scope.parameter("shift", {width}, Initializer::constant(0), {.decays = false});
  }
}

Var Norm::operator()(const Var& x, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  switch (kind_) {
    case NormKind::none:
      return x;
    case NormKind::rmsnorm:
      return rms_norm(x, pass(*gain_));
    case NormKind::layernorm:
      break;
  }
  return layer_norm(x, pass(*gain_), shift_ ? pass(*shift_) : Var());
}

ResidualNorm Norm::of_sum(const Var& x, const Var& branch, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  switch (kind_) {
    case NormKind::none: {
      const Var sum = x + branch;
      return {sum, sum};
    }
    case NormKind::rmsnorm:
      return add_rms_norm(x, branch, pass(*gain_));
    case NormKind::layernorm:
      break;
  }
  return add_layer_norm(x, branch, pass(*gain_), shift_ ? pass(*shift_) : Var());
}

}  // namespace attune
