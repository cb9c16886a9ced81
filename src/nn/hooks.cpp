#include "attune/nn/hooks.h"

#include <array>
#include <string>

#include "attune/core/error.h"

namespace attune {

std::string_view to_string(HookPoint point) {
  constexpr std::array<std::string_view, 15> kNames = {
      "embedding",    "residual_pre", "query",   "key",           "value",
      "scores",       "pattern",      "router",  "head_output",   "attention_out",
      "residual_mid", "ffn_hidden",   "ffn_out", "residual_post", "final"};
  return kNames[static_cast<std::size_t>(point)];
}

Var call_hook(Hooks& hooks, HookPoint point, int layer, const Var& x) {
  Var y = hooks.at(point, layer, x);
  if (y.shape() == x.shape() && y.dtype() == x.dtype() && !y.is_null()) return y;
  throw ShapeError("hook at " + std::string(to_string(point)) + " of layer " +
                   std::to_string(layer) + ": returned " + std::string(to_string(y.dtype())) + " " +
                   to_string(y.shape()) + ", expected " + std::string(to_string(x.dtype())) + " " +
                   to_string(x.shape()));
}

}  // namespace attune
