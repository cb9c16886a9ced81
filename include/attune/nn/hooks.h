#pragma once

#include <cstdint>
#include <string_view>

#include "attune/autodiff/var.h"

namespace attune {

// Named places of a forward pass where a hook may look at a value or replace it. Shapes in axis
// names.
enum class HookPoint : std::uint8_t {
  embedding,      // [batch, time, model]: tokens with what the encoding adds; layer -1
  residual_pre,   // [batch, time, model]: the stream before a block
  query,          // [batch, query, heads * head_dim]: after the encoding's transform
  key,            // [batch, key, kv_heads * head_dim]
  value,          // [batch, key, kv_heads * value_dim]
  scores,         // [batch, heads, query, key]: scaled, biased, capped, before the mask
  pattern,        // [batch, heads, query, key]: weights after the softmax, before dropout
  router,         // [batch, time, experts]: how likely each expert is (mixture of attentions)
  head_output,    // [batch, query, heads * value_dim]: the heads' mixtures, before the output map
  attention_out,  // [batch, time, model]: what attention adds to the stream
  residual_mid,   // [batch, time, model]: the stream between attention and feed-forward
  ffn_hidden,     // [batch, time, hidden]: after the activation
  ffn_out,        // [batch, time, model]
  residual_post,  // [batch, time, model]: the stream after a block
  final,          // [batch, time, model]: what the head reads; layer = number of layers
};
[[nodiscard]] std::string_view to_string(HookPoint point);

// Taps, ablation and patching: given to a Pass, called by the layers, no change to any model.
// Default: nothing happens.
class Hooks {
 public:
  virtual ~Hooks() = default;
  // Returns x, or what shall stand in its place (same shape and dtype).
  [[nodiscard]] virtual Var at(HookPoint /*point*/, int /*layer*/, const Var& x) { return x; }
  // Whether at() may return something else than x. Where it never does, the pass computes bit by
  // bit what it would without hooks.
  [[nodiscard]] virtual bool replaces() const { return true; }
  // Whether this layer's scores or pattern are wanted: they exist only in composed attention, which
  // is slower than the fused kernel and equal to it within rounding.
  [[nodiscard]] virtual bool wants_inside_of_attention(int /*layer*/) const { return false; }
};

// hooks.at(), checked. Throws ShapeError where it returns another shape or dtype.
[[nodiscard]] Var call_hook(Hooks& hooks, HookPoint point, int layer, const Var& x);

}  // namespace attune
