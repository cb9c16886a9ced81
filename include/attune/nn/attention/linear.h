#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "attune/nn/attention/maps.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Attention with a kernel phi(q) . phi(k) > 0 in place of e^(q . k), which need not meet every pair
// of tokens (Katharopoulos et al. 2020): sums over keys are taken once, for all queries,
//   y_i = phi(q_i) S_i / phi(q_i) z_i     S_i = sum_j phi(k_j) v_j^T     z_i = sum_j phi(k_j)
// with j <= i where causal. Below, features are phi of queries and keys, at least 0, [batch, heads,
// time, features], and values [batch, heads, time, value_dim]. A query whose keys all have features
// 0 gets 0.

// S and z side by side: all that a recurrence has to keep of the tokens it has read, however many.
struct LinearAttentionState {
  Var sums;  // [batch, heads, features, value_dim + 1]; null: nothing was read
};

// phi, of queries or keys of heads: [batch, heads, time, head_dim] -> [batch, heads, time,
// features]
class FeatureMap {
 public:
  virtual ~FeatureMap() = default;
  [[nodiscard]] virtual Var of_queries(const Var& query) const = 0;
  [[nodiscard]] virtual Var of_keys(const Var& key) const = 0;
};

// All queries at once, in time and memory linear in the lengths: in chunks of tokens, the state of
// the chunks before and the masked products within a chunk. Where causal and there are more keys
// than queries, the queries are of the last tokens.
[[nodiscard]] Var linear_attention(const Var& query_features, const Var& key_features,
                                   const Var& value, bool causal);
// The same of queries and keys [batch, heads, time, head_dim], whose features are taken of as many
// tokens at a time as are worked on together, so that those of a long text stay in the caches. keep
// [batch, 1, key, 1]: 0 for keys whose features count as 0; null: all count.
[[nodiscard]] Var linear_attention(const FeatureMap& features, const Var& query, const Var& key,
                                   const Var& value, bool causal, const Array& keep = {});
// The same as a recurrence: reads one token, [batch, heads, 1, ...], into the state and answers its
// query.
[[nodiscard]] Var linear_attention_step(const Var& query_features, const Var& key_features,
                                        const Var& value, LinearAttentionState& state);

// elu(x) + 1: x + 1 above 0, e^x below; as many features as head_dim.
class EluFeatures final : public FeatureMap {
 public:
  [[nodiscard]] Var of_queries(const Var& query) const override { return of_keys(query); }
  [[nodiscard]] Var of_keys(const Var& key) const override;
};

// Linear attention in the place of dot-product attention. Parameters: query, key, value and output
// as in MultiHeadAttention. No pair of tokens has a weight, so there is nothing to log, to drop out
// or to bias. Position may enter queries and keys (rope) or embeddings. Masks: causal or none, and
// padding, whose keys' features become 0; what a KV-cache holds are keys and values, read anew for
// every token; step() goes on in constant time.
class LinearAttention final : public SelfAttention {
 public:
  // Throws ConfigError for an encoding that adds to scores, for other masks, and for what it does
  // not use. The encoding must outlive the layer.
  LinearAttention(const char* kind, const Scope& scope, const AttentionConfig& config,
                  std::unique_ptr<FeatureMap> features, const PositionalEncoding& encoding,
                  const InitScheme& init, int layer);

  // Throws UsageError where the pass's mask is more than padding.
  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const override;
  // One token, x [batch, 1, model], after those of the state; causal.
  [[nodiscard]] Var step(const Var& x, const PositionContext& context, LinearAttentionState& state,
                         const Pass& pass) const;
  [[nodiscard]] std::int64_t logged_heads() const override { return 0; }
  [[nodiscard]] CacheWidths cache_widths() const override {
    return {config_.heads * config_.head_dim, config_.heads * config_.value_dim};
  }

 private:
  const char* kind_;
  AttentionConfig config_;
  std::string path_;
  std::unique_ptr<FeatureMap> features_;
  const PositionalEncoding& encoding_;
  int layer_;
  AttentionMaps maps_;
};

}  // namespace attune
