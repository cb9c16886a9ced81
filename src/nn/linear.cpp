#include "attune/nn/linear.h"

#include "attune/ops/matmul.h"

namespace attune {

Linear::Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool bias,
               const InitScheme& init, Role role)
    : weight_(scope.parameter("weight", {out, in}, init(role, {out, in}))),
      bias_(bias ? &scope.parameter("bias", {out}, Initializer::constant(0), {.decays = false})
                 : nullptr) {}

Var Linear::operator()(const Var& x, const Pass& pass) const {
  return linear(x, pass(weight_), bias_ ? pass(*bias_) : Var());
}

Var Linear::operator()(const Var& x, const Pass& pass, ActivationFunction activation) const {
  return linear_activation(x, pass(weight_), bias_ ? pass(*bias_) : Var(), activation);
}

}  // namespace attune
