#include "attune/nn/feed_forward.h"

#include "attune/ops/arithmetic.h"
#include "attune/ops/unary.h"

namespace attune {
namespace {

Var activate(Activation activation, const Var& x) {
  switch (activation) {
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::relu:
      return relu(x);
    case Activation::swiglu:
      return silu(x);
  }
  return x;
}

}  // namespace

FeedForward::FeedForward(const Scope& scope, const FeedForwardConfig& config,
                         const InitScheme& init, int layer)
    : activation_(config.activation),
      layer_(layer),
      gate_(config.activation == Activation::swiglu
                ? std::optional<Linear>(std::in_place, scope / "gate", config.model, config.hidden,
                                        config.bias, init)
                : std::nullopt),
      up_(scope / "up", config.model, config.hidden, config.bias, init),
      down_(scope / "down", config.hidden, config.model, config.bias, init,
            Role::residual_projection) {}

Var FeedForward::operator()(const Var& x, const Pass& pass) const {
  Var hidden = up_(x, pass);
  hidden =
      gate_ ? activate(activation_, (*gate_)(x, pass)) * hidden : activate(activation_, hidden);
  return down_(pass.hook(HookPoint::ffn_hidden, layer_, hidden), pass);
}

}  // namespace attune
