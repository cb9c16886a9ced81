#pragma once

#include <memory>
#include <optional>
#include <string>

#include "attune/model/transformer_config.h"
#include "attune/nn/dropout.h"
#include "attune/nn/feed_forward.h"
#include "attune/nn/norm.h"
#include "attune/nn/self_attention.h"

namespace attune {

// One layer of a transformer:
//   pre-norm    x = x + attention(norm_1(x));   x = x + ffn(norm_2(x))   (Radford et al. 2019)
//   post-norm   x = norm_1(x + attention(x));   x = norm_2(x + ffn(x))   (Vaswani et al. 2017)
// Without residual the "x +" is left out, without ffn the second half.
class Block final {
 public:
  Block(const Scope& scope, const TransformerConfig& config, const PositionalEncoding& encoding,
        const InitScheme& init, int layer);
  // x: [batch, time, model] -> [batch, time, model]
  [[nodiscard]] Var operator()(const Var& x, const PositionContext& context,
                               const Pass& pass) const;
  [[nodiscard]] const SelfAttention& attention() const { return *attention_; }

 private:
  [[nodiscard]] Var add_branch(const Var& x, const Var& branch) const;
  // The stream with a branch, and its norm.
  [[nodiscard]] ResidualNorm join(const Var& x, const Var& branch, const Norm& norm,
                                  const Pass& pass) const;
  // The stream between attention and feed-forward, and what feed-forward reads of it.
  [[nodiscard]] ResidualNorm middle(const Var& x, const Var& branch, const Pass& pass) const;
  // The stream behind the last branch, which `norm` belongs to.
  [[nodiscard]] Var end(const Var& x, const Var& branch, const Norm& norm, const Pass& pass) const;

  std::string path_;
  bool residual_;
  NormPosition norm_position_;
  int layer_;
  Norm norm_1_;
  std::unique_ptr<SelfAttention> attention_;
  Dropout attention_dropout_;
  std::optional<Norm> norm_2_;
  std::optional<FeedForward> ffn_;
  std::optional<Dropout> ffn_dropout_;
};

}  // namespace attune
