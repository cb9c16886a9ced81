#include "attune/nn/feed_forward.h"

#include "attune/core/error.h"
#include "attune/ops/unary.h"

namespace attune {
namespace {

// Of activations without a gate.
ActivationFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return ActivationFunction::gelu;
    case Activation::gelu_tanh:
      return ActivationFunction::gelu_tanh;
    case Activation::relu:
      return ActivationFunction::relu;
    case Activation::swiglu:
      break;
  }
  throw InternalError("feed_forward: the activation is gated");
}

}  // namespace

FeedForward::FeedForward(const Scope& scope, const FeedForwardConfig& config,
                         const InitScheme& init, int layer)
    : path_(scope.path()),
      activation_(config.activation),
      layer_(layer),
      gate_(config.activation == Activation::swiglu
                ? std::optional<Linear>(std::in_place, scope / "gate", config.model, config.hidden,
                                        config.bias, init)
                : std::nullopt),
      up_(scope / "up", config.model, config.hidden, config.bias, init),
      down_(scope / "down", config.hidden, config.model, config.bias, init,
            Role::residual_projection) {}

Var FeedForward::operator()(const Var& x, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Var hidden = gate_ ? gated(x, pass) : up_(x, pass, function_of(activation_));
  return down_(pass.hook(HookPoint::ffn_hidden, layer_, hidden), pass);
}

Var FeedForward::gated(const Var& x, const Pass& pass) const {
  const Var up = up_(x, pass);
  return swiglu((*gate_)(x, pass), up);
}

}  // namespace attune
