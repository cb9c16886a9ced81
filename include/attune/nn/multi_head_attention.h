#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attune/nn/attention/maps.h"
#include "attune/nn/norm.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Multi-head scaled dot-product attention (Vaswani et al. 2017, section 3.2) in its four stages:
// project, score, normalise under the mask, combine. Parameters: query.weight [heads * head_dim,
// model], key.weight [kv_heads * head_dim, memory], value.weight [kv_heads * value_dim, memory],
// output.weight [model, heads * value_dim], and biases where asked for. Where the configuration
// asks for them: query_norm.gain and key_norm.gain [head_dim]; temperature [heads], starts at 1;
// sink [heads], starts at 0; mix_scores and mix_weights [heads, heads], start at the identity; none
// of these decays.
class MultiHeadAttention final : public SelfAttention {
 public:
  // The encoding must outlive the layer.
  MultiHeadAttention(const Scope& scope, const AttentionConfig& config,
                     const PositionalEncoding& encoding, const InitScheme& init, int layer);

  // Self-attention. x: [batch, time, model] -> [batch, time, model]
  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const override;
  // Cross-attention. x: [batch, query, model], memory: [batch, key, memory] -> [batch, query,
  // model]
  [[nodiscard]] Var operator()(const Var& x, const Var& memory, const PositionContext& context,
                               const Pass& pass) const;

  [[nodiscard]] std::int64_t logged_heads() const override { return config_.heads; }
  [[nodiscard]] CacheWidths cache_widths() const override {
    return {config_.kv_heads * config_.head_dim, config_.kv_heads * config_.value_dim};
  }

 private:
  AttentionConfig config_;
  std::string path_;
  const PositionalEncoding& encoding_;
  int layer_;
  AttentionMaps maps_;
  std::optional<Norm> query_norm_;
  std::optional<Norm> key_norm_;
  const Parameter* temperature_ = nullptr;
  Array fixed_temperature_;  // [heads], or null
  const Parameter* sink_ = nullptr;
  Array zero_sink_;  // [heads], or null
  const Parameter* mix_scores_ = nullptr;
  const Parameter* mix_weights_ = nullptr;
};

}  // namespace attune
