#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attune/nn/linear.h"
#include "attune/nn/self_attention.h"

namespace attune {

// Mixture of attentions (Zhang et al. 2022, with one expert a token as in Fedus et al. 2022): a
// router sends each token to one of E experts, whose maps make its queries and its output; keys and
// values are the same for all, so that whoever was sent where, tokens see each other:
//   p_t = softmax(R x_t)      e = argmax p_t      y_t = p_te Wo_e heads(attend(Wq_e x_t, K, V))
// p_te is how the router learns. Experts that a token was not sent to cost nothing: E experts make
// E times the query and output maps of MultiHeadAttention, of which a token passes one.
// Parameters: router.weight [experts, model]; key and value as in MultiHeadAttention;
// expert.<e>.query.weight [heads * head_dim, model] and expert.<e>.output.weight [model, heads *
// value_dim], with biases where asked for; those of an expert that no token was sent to go without
// gradient, so they are optional.
class MixtureAttention final : public SelfAttention {
 public:
  // Throws ConfigError for fewer than one expert and for what it does not use. The encoding must
  // outlive the layer.
  MixtureAttention(const Scope& scope, const AttentionConfig& config,
                   const PositionalEncoding& encoding, const InitScheme& init, int layer);

  struct Routed {
    Var y;                             // [batch, time, model]
    std::vector<std::int64_t> tokens;  // of each expert
    // E sum_e f_e mean_t p_te, f_e the share of tokens of expert e (Fedus et al. 2022, section
    // 2.2): 1 where all are equal, up to E. A small multiple of it, added to the loss, keeps the
    // experts in balance; without it few of them may take all. The tokens are those of the pass.
    Var balance;  // []
  };
  [[nodiscard]] Routed route(const Var& x, const PositionContext& context, const Pass& pass) const;
  // route().y; its gradient is also that of pass.layer_loss_weight * balance.
  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const override;
  [[nodiscard]] std::int64_t logged_heads() const override { return config_.heads; }
  [[nodiscard]] CacheWidths cache_widths() const override {
    return {config_.kv_heads * config_.head_dim, config_.kv_heads * config_.value_dim};
  }

 private:
  struct Map {  // of one expert
    const Parameter& weight;
    const Parameter* bias;  // null: none
  };
  class Assignment;
  [[nodiscard]] Var of_experts(const std::vector<Map>& maps, const Var& x,
                               const Assignment& assignment, const Pass& pass) const;
  static std::vector<Map> make_maps(const Scope& scope, const char* name,
                                    const AttentionConfig& config, const Shape& shape,
                                    const InitScheme& init, Role role);

  AttentionConfig config_;
  std::string path_;
  const PositionalEncoding& encoding_;
  int layer_;
  Linear router_;
  Linear key_;
  Linear value_;
  std::vector<Map> query_;
  std::vector<Map> output_;
};

}  // namespace attune
