#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "attune/nn/self_attention.h"

// What the kinds of attention share that score by dot products of heads.
namespace attune::attention_parts {

// Fields of AttentionConfig beyond model, heads, head_dim, bias and mask that a kind has a use for.
struct Uses {
  bool kv_heads = false;
  bool value_dim = false;
  bool scale = false;
  bool softcap = false;
  bool dropout = false;
};
// The configuration with kv_heads and value_dim filled. Throws ConfigError naming the option where
// a field that the kind does not use is not at its default.
[[nodiscard]] AttentionConfig checked(const char* kind, AttentionConfig config, const Uses& uses);

struct Operands {
  Var query;  // [batch, query, heads * head_dim]
  Var key;    // [batch, key, kv_heads * head_dim]
  Var value;  // [batch, key, kv_heads * value_dim]
};
// Maps of a pass's tokens as attention takes them: position in queries and keys where the encoding
// puts it there; behind those of earlier tokens where there is a cache, in which they are stored;
// seen by the hooks.
[[nodiscard]] Operands with_positions_and_cache(Operands mapped, const AttentionConfig& config,
                                                const PositionalEncoding& encoding, int layer,
                                                const PositionContext& context, const Pass& pass);

// Scores [batch, heads, query, key] of which a kind of attention makes others; keep as in
// AttentionStages.
using ScoreTransform = std::function<Var(const Var& scores, const Array& keep)>;
// Scores, softmax under the mask and mixture of values for `heads` query heads, with what the
// encoding adds to each. transform, where there is one, comes last before the softmax.
[[nodiscard]] Var attend(const Operands& operands, const AttentionConfig& config,
                         const std::string& path, const PositionalEncoding& encoding, int layer,
                         const PositionContext& context, const Pass& pass,
                         const ScoreTransform& transform = {});

}  // namespace attune::attention_parts
