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
  attention.mask = config.mask == "causal" ? Mask::causal() : Mask::none();
  return attention;
}

}  // namespace

Block::Block(const Scope& scope, const TransformerConfig& config,
             const PositionalEncoding& encoding, const InitScheme& init, int layer)
    : residual_(config.residual),
      norm_position_(config.norm_position),
      layer_(layer),
      norm_1_(scope / "norm_1", config.norm, config.n_embd, config.bias),
      attention_(scope / "attention", attention_config(config), encoding, init, layer),
      attention_dropout_(scope / "attention_dropout", config.dropout) {
  if (!config.ffn) return;
  const FeedForwardConfig ffn{config.n_embd, config.d_ff, config.activation, config.bias};
  norm_2_.emplace(scope / "norm_2", config.norm, config.n_embd, config.bias);
  ffn_.emplace(scope / "ffn", ffn, init, layer);
  ffn_dropout_.emplace(scope / "ffn_dropout", config.dropout);
}

Var Block::operator()(const Var& input, const PositionContext& context, const Pass& pass) const {
  const bool pre = norm_position_ == NormPosition::pre;
  Var x = pass.hook(HookPoint::residual_pre, layer_, input);

  Var branch = attention_(pre ? norm_1_(x, pass) : x, context, pass);
  branch = pass.hook(HookPoint::attention_out, layer_, attention_dropout_(branch, pass));
  x = add_branch(x, branch);
  if (!pre) x = norm_1_(x, pass);

  if (ffn_) {
    x = pass.hook(HookPoint::residual_mid, layer_, x);
    branch = (*ffn_)(pre ? (*norm_2_)(x, pass) : x, pass);
    branch = pass.hook(HookPoint::ffn_out, layer_, (*ffn_dropout_)(branch, pass));
    x = add_branch(x, branch);
    if (!pre) x = (*norm_2_)(x, pass);
  }
  return pass.hook(HookPoint::residual_post, layer_, x);
}

Var Block::add_branch(const Var& x, const Var& branch) const {
  return residual_ ? x + branch : branch;
}

}  // namespace attune
