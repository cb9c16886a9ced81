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
// The configuration, resolved. Throws ConfigError naming the option where
// a field that the kind does not use is not at its default.
[[nodiscard]] AttentionConfig checked(const char* kind, const AttentionConfig& config,
                                      const Uses& uses);

struct Operands {
  Var query;                       // [batch, query, heads * head_dim]
  Var key;                         // [batch, key, kv_heads * head_dim]
  Var value;                       // [batch, key, kv_heads * value_dim]
  std::int64_t keys_in_cache = 0;  // where the two above are null: so many are read there
};
// Whether a cache may be read where it lies, or keys and values have to be arrays. A hook, or an
// encoding that needs to see all keys, gets arrays in any case.
enum class CacheRead : bool { copied, in_place };

// Stage 1 behind the maps: position in queries and keys where the encoding puts it there; new keys
// and values behind those of earlier tokens where there is a cache; what hooks look at.
[[nodiscard]] Operands with_positions_and_cache(Operands mapped, const AttentionConfig& config,
                                                const PositionalEncoding& encoding, int layer,
                                                const PositionContext& context, const Pass& pass,
                                                CacheRead read = CacheRead::copied);

// What a layer of this configuration asks of the operation. The mask must outlive it.
[[nodiscard]] AttentionOptions options_of(const AttentionConfig& config, const std::string& path,
                                          int layer, const Mask& mask,
                                          const PositionContext& context, const Pass& pass);

// Scores [batch, heads, query, key] of which a kind of attention makes others; keep as in
// AttentionStages.
using ScoreTransform = std::function<Var(const Var& scores, const Array& keep)>;

// Stages 2 to 4: scores, weights under the mask, mixture of values, with what the encoding adds to
// each: [batch, query, heads * value_dim]. transform, where there is one, comes last before the
// normaliser. One fused kernel, over arrays or over the cache, or the composition from primitive
// ops where somebody looks inside or something depends on content.
[[nodiscard]] Var attend(const Operands& operands, const AttentionOptions& options,
                         const PositionalEncoding& encoding, int layer,
                         const PositionContext& context, const Pass& pass,
                         const ScoreTransform& transform = {});
// The same with the options and masks of the configuration and the pass.
[[nodiscard]] Var attend(const Operands& operands, const AttentionConfig& config,
                         const std::string& path, const PositionalEncoding& encoding, int layer,
                         const PositionContext& context, const Pass& pass,
                         const ScoreTransform& transform = {});

}  // namespace attune::attention_parts
