#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/attention/maps.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Top-k attention (Zhao et al. 2019): dot-product attention in which every query row keeps the
// config.top_k largest of the scores that its mask keeps, of equals the first, and its softmax is
// over those alone. Where a row has fewer keys it is dot-product attention. The choice has no
// gradient; the scores that were chosen have theirs. Entropies are over the chosen keys. All scores
// are computed, but only those that were chosen are kept and have a way back, unless the encoding
// adds to scores or a hook looks at them; attention over a large memory that is searched for is
// ExternalMemory.
// Parameters: query, key, value and output as in MultiHeadAttention.
class TopKAttention final : public SelfAttention {
 public:
  // Throws ConfigError for top_k < 1 and for what it does not use: normalisers, sinks, norms of
  // queries and keys, talking heads. The encoding must outlive the layer.
  TopKAttention(const Scope& scope, const AttentionConfig& config,
                const PositionalEncoding& encoding, const InitScheme& init, int layer);

  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const override;
  [[nodiscard]] std::int64_t logged_heads() const override { return config_.heads; }
  [[nodiscard]] CacheWidths cache_widths() const override {
    return {config_.kv_heads * config_.head_dim, config_.kv_heads * config_.value_dim};
  }

 private:
  [[nodiscard]] Var output(const Var& mixed, const Pass& pass) const;

  AttentionConfig config_;
  std::string path_;
  const PositionalEncoding& encoding_;
  int layer_;
  AttentionMaps maps_;
};

}  // namespace attune
