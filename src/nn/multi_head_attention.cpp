#include "attune/nn/multi_head_attention.h"

#include <string>

#include "attune/core/error.h"
#include "attune/ops/shaping.h"
#include "nn/attention/dot_product.h"
#include "nn/attention/kinds.h"

namespace attune {

using namespace attention_parts;

namespace {

constexpr ParameterOptions kNotDecayed{.decays = false};

// The norm of every head apart: x [batch, time, heads * head_dim] -> the same shape.
Var normalised(const std::optional<Norm>& norm, const Var& x, std::int64_t head_dim,
               const Pass& pass) {
  if (!norm) return x;
  return reshape((*norm)(reshape(x, {-1, head_dim}), pass), x.shape());
}

bool mixes(TalkingHeads talking, TalkingHeads where) {
  return talking == where || talking == TalkingHeads::both;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const AttentionConfig& config,
                                       const PositionalEncoding& encoding, const InitScheme& init,
                                       int layer)
    : config_(resolved("attention", config)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      maps_(scope, config_, init) {
  if (config_.qk_norm) {
    query_norm_.emplace(scope / "query_norm", NormKind::rmsnorm, config_.head_dim, false);
    key_norm_.emplace(scope / "key_norm", NormKind::rmsnorm, config_.head_dim, false);
  }
  const Shape square{config_.heads, config_.heads};
  const auto identity = Initializer::identity();
  if (config_.temperature == kLearned) {
    temperature_ =
        &scope.parameter("temperature", {config_.heads}, Initializer::constant(1), kNotDecayed);
  } else if (config_.temperature != 1) {
    fixed_temperature_ = Array::full({config_.heads}, config_.temperature, scope.dtype());
  }
  if (config_.sink == Sink::learned)
    sink_ = &scope.parameter("sink", {config_.heads}, Initializer::constant(0), kNotDecayed);
  if (config_.sink == Sink::zero) zero_sink_ = Array::zeros({config_.heads}, scope.dtype());
  if (mixes(config_.talking_heads, TalkingHeads::before))
    mix_scores_ = &scope.parameter("mix_scores", square, identity, kNotDecayed);
  if (mixes(config_.talking_heads, TalkingHeads::after))
    mix_weights_ = &scope.parameter("mix_weights", square, identity, kNotDecayed);
}

Var MultiHeadAttention::operator()(const Var& x, const PositionContext& context,
                                   const Pass& pass) const {
  return (*this)(x, x, context, pass);
}

// The four stages: project; score, normalise under the mask and combine in attend().
Var MultiHeadAttention::operator()(const Var& x, const Var& memory, const PositionContext& context,
                                   const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Var query = normalised(query_norm_, maps_.query(x, pass), config_.head_dim, pass);
  const Var key = normalised(key_norm_, maps_.key(memory, pass), config_.head_dim, pass);
  const Operands operands =
      with_positions_and_cache({query, key, maps_.value(memory, pass)}, config_, encoding_, layer_,
                               context, pass, CacheRead::in_place);

  const Mask mask = pass.mask ? config_.mask & *pass.mask : config_.mask;
  AttentionOptions options = options_of(config_, path_, layer_, mask, context, pass);
  if (temperature_) options.temperature = pass(*temperature_);
  if (!fixed_temperature_.is_null()) options.temperature = Var(fixed_temperature_);
  if (sink_) options.sink = pass(*sink_);
  if (!zero_sink_.is_null()) options.sink = Var(zero_sink_);
  if (mix_scores_) options.mix_scores = pass(*mix_scores_);
  if (mix_weights_) options.mix_weights = pass(*mix_weights_);
  const Var mixed = attend(operands, options, encoding_, layer_, context, pass);
  return maps_.output(pass.hook(HookPoint::head_output, layer_, mixed), pass);
}

std::unique_ptr<SelfAttention> attention_kind::make_dot_product(const Scope& scope,
                                                                const AttentionConfig& config,
                                                                const PositionalEncoding& encoding,
                                                                const InitScheme& init, int layer) {
  return std::make_unique<MultiHeadAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
