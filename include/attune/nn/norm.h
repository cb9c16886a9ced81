#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"
#include "attune/ops/norm.h"

namespace attune {

enum class NormKind : std::uint8_t { layernorm, rmsnorm, none };

// Normalises the last axis. Parameters: gain [width], starts at 1; shift [width] where asked for
// (layernorm only), starts at 0; neither decays. Kind none is the identity without parameters.
class Norm final {
 public:
  Norm(const Scope& scope, NormKind kind, std::int64_t width, bool shift);
  // x: [..., width] -> [..., width]
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;
  // x + branch and its norm, in one pass over both. Shapes as above, of x and branch alike.
  [[nodiscard]] ResidualNorm of_sum(const Var& x, const Var& branch, const Pass& pass) const;

 private:
  std::string path_;
  NormKind kind_;
  const Parameter* gain_ = nullptr;
  const Parameter* shift_ = nullptr;
};

}  // namespace attune
