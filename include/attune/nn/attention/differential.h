#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/attention/maps.h"
#include "attune/nn/norm.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Differential attention (Ye et al. 2024): a head is the difference of two softmax maps, so that
// what both give to everything cancels:
//   o_g = RMSNorm((softmax(Q_2g K_2g^T) - lambda softmax(Q_2g+1 K_2g+1^T)) V_g) (1 - lambda_init)
//   lambda = exp(lq1 . lk1) - exp(lq2 . lk2) + lambda_init
//   lambda_init = 0.8 - 0.6 e^(-0.3 layer), layers counted from 0
// config.heads counts softmax maps, as the paper compares models of one size: an even number, two
// maps to a head, and a head's values are 2 head_dim wide. So the parameters are those of
// MultiHeadAttention, and beside them lambda_query_1, lambda_key_1, lambda_query_2, lambda_key_2
// [head_dim], N(0, 0.1^2), and norm.gain [2 head_dim], shared by the heads; these do not decay.
// Statistics have an entry for each map, 2g and 2g + 1 of head g: each is a distribution, their
// difference is not.
class DifferentialAttention final : public SelfAttention {
 public:
  // Throws ConfigError for an odd number of maps, an encoding that depends on content, and for what
  // it does not use. The encoding must outlive the layer.
  DifferentialAttention(const Scope& scope, const AttentionConfig& config,
                        const PositionalEncoding& encoding, const InitScheme& init, int layer);

  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const override;
  [[nodiscard]] std::int64_t logged_heads() const override { return config_.heads; }
  [[nodiscard]] CacheWidths cache_widths() const override {
    return {config_.heads * config_.head_dim, config_.heads * config_.head_dim};
  }
  // [], as the parameters have it now.
  [[nodiscard]] Var lambda(const Pass& pass) const;

 private:
  AttentionConfig config_;
  std::string path_;
  const PositionalEncoding& encoding_;
  int layer_;
  double lambda_init_;
  AttentionMaps maps_;
  const Parameter& lambda_query_1_;
  const Parameter& lambda_key_1_;
  const Parameter& lambda_query_2_;
  const Parameter& lambda_key_2_;
  Norm norm_;
};

}  // namespace attune
