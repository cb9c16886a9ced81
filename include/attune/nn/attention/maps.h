#pragma once

#include <string>

#include "attune/nn/linear.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Where a configuration leaves memory, kv_heads or value_dim at 0: what they follow. Throws
// ConfigError "<what>: 3 key heads do not divide 2 query heads".
[[nodiscard]] AttentionConfig resolved(const std::string& what, AttentionConfig config);

// The four linear maps of attention by dot products, of a resolved configuration. Parameters, in
// this order: query.weight [heads * head_dim, model], key.weight [kv_heads * head_dim, memory],
// value.weight [kv_heads * value_dim, memory], output.weight [model, heads * value_dim], and biases
// where asked for.
struct AttentionMaps {
  AttentionMaps(const Scope& scope, const AttentionConfig& config, const InitScheme& init);

  Linear query;
  Linear key;
  Linear value;
  Linear output;
};

}  // namespace attune
