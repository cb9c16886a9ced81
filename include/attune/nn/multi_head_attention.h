#pragma once

#include <cstdint>
#include <string>

#include "attune/core/mask.h"
#include "attune/nn/linear.h"
#include "attune/nn/positional_encoding.h"

namespace attune {

struct AttentionConfig {
  std::int64_t model = 128;  // width of the input and of the output
  std::int64_t memory = 0;  // width of what keys and values are made of (cross-attention); 0: model
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;   // heads of keys and values; 0: heads
  std::int64_t head_dim = 32;  // width of a head's queries and keys
  std::int64_t value_dim = 0;  // width of a head's values; 0: head_dim
  double scale = 0;            // factor on the scores; 0: 1/sqrt(head_dim)
  double softcap = 0;          // c tanh(score / c); 0: off
  double dropout = 0;          // on attention weights
  bool bias = false;
  Mask mask = Mask::causal();  // the layer's own; AND-ed with the pass's
};

// Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2) in its four stages:
// project, score, normalise under the mask, combine. Parameters: query.weight [heads * head_dim,
// model], key.weight [kv_heads * head_dim, memory], value.weight [kv_heads * value_dim, memory],
// output.weight [model, heads * value_dim], and biases where asked for.
class MultiHeadAttention final {
 public:
  // The encoding must outlive the layer.
  MultiHeadAttention(const Scope& scope, const AttentionConfig& config,
                     const PositionalEncoding& encoding, const InitScheme& init, int layer);

  // Self-attention. x: [batch, time, model] -> [batch, time, model]
  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const;
  // Cross-attention. x: [batch, query, model], memory: [batch, key, memory] -> [batch, query,
  // model]
  [[nodiscard]] Var operator()(const Var& x, const Var& memory, const PositionContext& context,
                               const Pass& pass) const;

 private:
  struct Projections {
    Var query;                       // [batch, query, heads * head_dim]
    Var key;                         // [batch, key, kv_heads * head_dim]
    Var value;                       // [batch, key, kv_heads * value_dim]
    std::int64_t keys_in_cache = 0;  // where the two above are null: so many are read there
  };
  [[nodiscard]] bool reads_cache_in_place(const Pass& pass) const;
  [[nodiscard]] Projections project(const Var& x, const Var& memory, const PositionContext& context,
                                    const Pass& pass) const;
  [[nodiscard]] Var attend(const Projections& projected, const PositionContext& context,
                           const Pass& pass) const;

  AttentionConfig config_;
  std::string path_;
  const PositionalEncoding& encoding_;
  int layer_;
  Linear query_;
  Linear key_;
  Linear value_;
  Linear output_;
};

}  // namespace attune
