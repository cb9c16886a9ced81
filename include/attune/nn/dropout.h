#pragma once

#include <string>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"

namespace attune {

// Dropout at one site of a model; its bits come from the stream "<path>" of the pass, at global
// coordinates. Identity outside training.
class Dropout final {
 public:
  // Throws ConfigError for a rate outside [0, 1].
  Dropout(const Scope& scope, double rate);
  // x: [batch, ...]
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;

 private:
  std::string path_;
  double rate_;
};

}  // namespace attune
