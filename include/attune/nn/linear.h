#pragma once

#include <cstdint>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"
#include "attune/ops/unary.h"

namespace attune {

// y = x W^T + b. Parameters: weight [out, in], decays; bias [out] where asked for, starts at 0,
// does not decay.
class Linear final {
 public:
  Linear(const Scope& scope, std::int64_t in, std::int64_t out, bool bias, const InitScheme& init,
         Role role = Role::weight);
  // x: [..., in] -> [..., out]
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;
  // activation(y), in one operation.
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass, ActivationFunction activation) const;

 private:
  const Parameter& weight_;
  const Parameter* bias_;  // null: none
};

}  // namespace attune
