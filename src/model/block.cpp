#include "attune/model/block.h"

#include "attune/ops/arithmetic.h"

namespace attune {
namespace {

AttentionConfig attention_config(const TransformerConfig& config) {
  AttentionConfig attention;
  attention.model = config.n_embd;
  attention.heads = config.n_head;
  attention.head_dim = config.head_dim;
  attention.value_dim = config.value_dim;
  attention.scale = config.attention_scale;
  attention.dropout = config.attention_dropout;
  attention.bias = config.bias;
  attention.mask = make_mask(config.mask, config.mask_sizes);
  attention.kv_heads = config.n_kv_head;
  attention.softcap = config.softcap;
  attention.normaliser = config.normaliser;
  attention.sink = config.sink;
  attention.temperature = config.temperature;
  attention.qk_norm = config.qk_norm;
  attention.talking_heads = config.talking_heads;
  attention.top_k = config.top_k;
  attention.experts = config.experts;
  attention.features = config.features;
  return attention;
}

}  // namespace

Block::Block(const Scope& scope, const TransformerConfig& config,
             const PositionalEncoding& encoding, const InitScheme& init, int layer)
    : path_(scope.path()),
      residual_(config.residual),
      norm_position_(config.norm_position),
      layer_(layer),
      norm_1_(scope / "norm_1", config.norm, config.n_embd, config.bias),
      attention_(make_self_attention(config.attention, scope / "attention",
                                     attention_config(config), encoding, init, layer)),
      attention_dropout_(scope / "attention_dropout", config.dropout) {
  if (!config.ffn) return;
  const FeedForwardConfig ffn{config.n_embd, config.d_ff, config.activation, config.bias};
  norm_2_.emplace(scope / "norm_2", config.norm, config.n_embd, config.bias);
  ffn_.emplace(scope / "ffn", ffn, init, layer);
  ffn_dropout_.emplace(scope / "ffn_dropout", config.dropout);
}

Var Block::operator()(const Var& input, const PositionContext& context, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Var x = pass.hook(HookPoint::residual_pre, layer_, input);
  const bool pre = norm_position_ == NormPosition::pre;

  Var branch = (*attention_)(pre ? norm_1_(x, pass) : x, context, pass);
  branch = pass.hook(HookPoint::attention_out, layer_, attention_dropout_(branch, pass));
  if (!ffn_) return end(x, branch, norm_1_, pass);

  const ResidualNorm stream = middle(x, branch, pass);
  branch = (*ffn_)(stream.normalised, pass);
  branch = pass.hook(HookPoint::ffn_out, layer_, (*ffn_dropout_)(branch, pass));
  return end(stream.sum, branch, *norm_2_, pass);
}

Var Block::add_branch(const Var& x, const Var& branch) const {
  return residual_ ? x + branch : branch;
}

ResidualNorm Block::join(const Var& x, const Var& branch, const Norm& norm,
                         const Pass& pass) const {
  if (residual_) return norm.of_sum(x, branch, pass);
  return {branch, norm(branch, pass)};
}

ResidualNorm Block::middle(const Var& x, const Var& branch, const Pass& pass) const {
  if (norm_position_ == NormPosition::post) {
    const Var y =
        pass.hook(HookPoint::residual_mid, layer_, join(x, branch, norm_1_, pass).normalised);
    return {y, y};
  }
  if (pass.hooks == nullptr || !pass.hooks->replaces()) {
    ResidualNorm both = join(x, branch, *norm_2_, pass);
    both.sum = pass.hook(HookPoint::residual_mid, layer_, both.sum);
    return both;
  }
  // A hook may put another stream between the sum and its norm.
  const Var sum = pass.hook(HookPoint::residual_mid, layer_, add_branch(x, branch));
  return {sum, (*norm_2_)(sum, pass)};
}

Var Block::end(const Var& x, const Var& branch, const Norm& norm, const Pass& pass) const {
  const bool pre = norm_position_ == NormPosition::pre;
  const Var y = pre ? add_branch(x, branch) : join(x, branch, norm, pass).normalised;
  return pass.hook(HookPoint::residual_post, layer_, y);
}

}  // namespace attune
