#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attune/nn/linear.h"

namespace attune {

enum class Activation : std::uint8_t { gelu, gelu_tanh, relu, swiglu };

struct FeedForwardConfig {
  std::int64_t model = 128;
  std::int64_t hidden = 512;
  Activation activation = Activation::gelu;
  bool bias = false;
};

// y = down(activation(up(x))), or with swiglu y = down(silu(gate(x)) * up(x)) (Shazeer 2020).
// Parameters: up, down, and with swiglu gate.
class FeedForward final {
 public:
  FeedForward(const Scope& scope, const FeedForwardConfig& config, const InitScheme& init,
              int layer);
  // x: [batch, time, model] -> [batch, time, model]
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;

 private:
  [[nodiscard]] Var gated(const Var& x, const Pass& pass) const;

  std::string path_;
  Activation activation_;
  int layer_;
  std::optional<Linear> gate_;
  Linear up_;
  Linear down_;
};

}  // namespace attune
