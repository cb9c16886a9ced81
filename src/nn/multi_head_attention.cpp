#include "attune/nn/multi_head_attention.h"

#include <string>

#include "attune/core/error.h"
#include "attune/nn/kv_cache.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "nn/attention/kinds.h"

namespace attune {
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

AttentionConfig resolved(AttentionConfig config) {
  if (config.memory == 0) config.memory = config.model;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.value_dim == 0) config.value_dim = config.head_dim;
  if (config.heads < 1 || config.kv_heads < 1 || config.heads % config.kv_heads != 0) {
    throw ConfigError("attention: " + std::to_string(config.kv_heads) +
                      " key heads do not divide " + std::to_string(config.heads) + " query heads");
  }
  return config;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, const AttentionConfig& config,
                                       const PositionalEncoding& encoding, const InitScheme& init,
                                       int layer)
    : config_(resolved(config)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      query_(scope / "query", config_.model, config_.heads * config_.head_dim, config_.bias, init),
      key_(scope / "key", config_.memory, config_.kv_heads * config_.head_dim, config_.bias, init),
      value_(scope / "value", config_.memory, config_.kv_heads * config_.value_dim, config_.bias,
             init),
      output_(scope / "output", config_.heads * config_.value_dim, config_.model, config_.bias,
              init, Role::residual_projection) {
  if (config_.qk_norm) {
    query_norm_.emplace(scope / "query_norm", NormKind::rmsnorm, config_.head_dim, false);
    key_norm_.emplace(scope / "key_norm", NormKind::rmsnorm, config_.head_dim, false);
  }
  const Shape square{config_.heads, config_.heads};
  const auto identity = Initializer::identity();
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

Var MultiHeadAttention::operator()(const Var& x, const Var& memory, const PositionContext& context,
                                   const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Projections projected = project(x, memory, context, pass);
  const Var mixed = attend(projected, context, pass);
  return output_(pass.hook(HookPoint::head_output, layer_, mixed), pass);
}

// A cache is read where it lies unless somebody has to see all its keys and values as arrays.
bool MultiHeadAttention::reads_cache_in_place(const Pass& pass) const {
  return pass.cache && !pass.hooks && !encoding_.depends_on_content() &&
         encoding_.cache_policy() == CachePolicy::transformed_keys;
}

// Stage 1: queries, keys and values, with position in queries and keys where the encoding puts it
// there. Where there is a cache, the new keys and values go behind those of earlier tokens.
MultiHeadAttention::Projections MultiHeadAttention::project(const Var& x, const Var& memory,
                                                            const PositionContext& context,
                                                            const Pass& pass) const {
  Var query = normalised(query_norm_, query_(x, pass), config_.head_dim, pass);
  query = encoding_.transform_query(query, config_.heads, context, pass);
  Var key = normalised(key_norm_, key_(memory, pass), config_.head_dim, pass);
  Var value = value_(memory, pass);
  const bool transform_before_cache =
      !pass.cache || encoding_.cache_policy() == CachePolicy::transformed_keys;
  if (transform_before_cache) key = encoding_.transform_key(key, config_.kv_heads, context, pass);
  if (pass.cache) {
    if (pass.tape) throw UsageError("attention: a KV-cache carries no gradients, so takes no tape");
    const std::int64_t time = key.shape()[1];
    pass.cache->append(layer_, key.value(), value.value());
    if (reads_cache_in_place(pass)) return {query, {}, {}, pass.cache->filled() + time};
    key = pass.cache->keys(layer_, time);
    value = pass.cache->values(layer_, time);
  }
  if (!transform_before_cache) key = encoding_.transform_key(key, config_.kv_heads, context, pass);
  return {pass.hook(HookPoint::query, layer_, query), pass.hook(HookPoint::key, layer_, key),
          pass.hook(HookPoint::value, layer_, value)};
}

AttentionOptions MultiHeadAttention::options(const Mask& mask, const PositionContext& context,
                                             const Pass& pass) const {
  AttentionOptions options;
  options.heads = config_.heads;
  options.kv_heads = config_.kv_heads;
  options.scale = config_.scale;
  options.softcap = config_.softcap;
  options.mask = &mask;
  options.normaliser = config_.normaliser;
  if (sink_) options.sink = pass(*sink_);
  if (!zero_sink_.is_null()) options.sink = Var(zero_sink_);
  if (mix_scores_) options.mix_scores = pass(*mix_scores_);
  if (mix_weights_) options.mix_weights = pass(*mix_weights_);
  options.distance_bias = {context.distance_table, context.first_distance, context.query.values,
                           context.distance_keys.values};
  if (pass.training && config_.dropout > 0) {
    options.dropout = {config_.dropout, pass.random.stream(path_ + ".pattern"), pass.first_example};
  }
  if (pass.statistics) options.statistics = pass.statistics->layer(layer_);
  return options;
}

// Stages 2 to 4: scores, softmax under the mask, mixture of values. One fused kernel, over arrays
// or over the cache, or the composition from primitive ops where somebody looks inside or the
// encoding depends on content.
Var MultiHeadAttention::attend(const Projections& projected, const PositionContext& context,
                               const Pass& pass) const {
  const Mask mask = pass.mask ? config_.mask & *pass.mask : config_.mask;
  const AttentionOptions asked = options(mask, context, pass);
  if (projected.key.is_null()) {
    return attention_over_cache(projected.query.value(), pass.cache->layer(layer_),
                                projected.keys_in_cache, context.score_bias.value(), asked);
  }
  const bool composed = encoding_.depends_on_content() ||
                        (pass.hooks && pass.hooks->wants_inside_of_attention(layer_));
  if (!composed) {
    return attention(projected.query, projected.key, projected.value, context.score_bias, asked);
  }
  AttentionStages stages;
  stages.scores = [&](const Var& scores, const Array& keep) {
    const Var bias = encoding_.content_bias(projected.query, scores, keep, layer_, context, pass);
    return pass.hook(HookPoint::scores, layer_, bias.is_null() ? scores : scores + bias);
  };
  stages.pattern = [&](const Var& pattern) {
    return pass.hook(HookPoint::pattern, layer_, pattern);
  };
  Var weights;
  stages.weights = [&](const Var& dropped) { return weights = dropped; };
  const Var mixed = attention_textbook(projected.query, projected.key, projected.value,
                                       context.score_bias, asked, stages);
  const Var term = encoding_.value_term(weights, layer_, context, pass);
  return term.is_null() ? mixed : mixed + term;
}

std::unique_ptr<SelfAttention> attention_kind::make_dot_product(const Scope& scope,
                                                                const AttentionConfig& config,
                                                                const PositionalEncoding& encoding,
                                                                const InitScheme& init, int layer) {
  return std::make_unique<MultiHeadAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
