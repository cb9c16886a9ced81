#include "nn/attention/dot_product.h"

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/nn/attention/maps.h"
#include "attune/nn/kv_cache.h"
#include "attune/ops/arithmetic.h"

namespace attune::attention_parts {

AttentionConfig checked(const char* kind, const AttentionConfig& asked, const Uses& uses) {
  const std::string what = fmt::format("--attention {}", kind);
  const AttentionConfig config = resolved(what, asked);
  const auto refuse = [&](bool is_asked_for, const char* option) {
    if (is_asked_for) throw ConfigError(fmt::format("{}: {} is not a part of it", what, option));
  };
  refuse(config.memory != config.model, "a memory of another width");
  refuse(!uses.kv_heads && config.kv_heads != config.heads, "--n-kv-head");
  refuse(!uses.value_dim && config.value_dim != config.head_dim, "--value-dim");
  refuse(!uses.scale && config.scale != 0, "--attn-scale");
  refuse(!uses.softcap && config.softcap != 0, "--softcap");
  refuse(!uses.dropout && config.dropout != 0, "--attn-dropout");
  refuse(config.normaliser != Normaliser::softmax, "--normaliser");
  refuse(config.sink != Sink::none, "--attn-sink");
  refuse(config.temperature != 1, "--attn-temperature");
  refuse(config.qk_norm, "--qk-norm");
  refuse(config.talking_heads != TalkingHeads::none, "--talking-heads");
  return config;
}

Operands with_positions_and_cache(Operands mapped, const AttentionConfig& config,
                                  const PositionalEncoding& encoding, int layer,
                                  const PositionContext& context, const Pass& pass,
                                  CacheRead read) {
  auto [query, key, value, none] = std::move(mapped);
  const bool caches_transformed = encoding.cache_policy() == CachePolicy::transformed_keys;
  const bool transform_first = !pass.cache || caches_transformed;
  query = encoding.transform_query(query, config.heads, context);
  if (transform_first) key = encoding.transform_key(key, config.kv_heads, context);
  if (pass.cache) {
    if (pass.tape) throw UsageError("attention: a KV-cache carries no gradients, so takes no tape");
    const std::int64_t time = key.shape()[1];
    pass.cache->append(layer, key.value(), value.value());
    const bool needs_arrays = pass.hooks || encoding.depends_on_content() || !caches_transformed;
    if (read == CacheRead::in_place && !needs_arrays)
      return {query, {}, {}, pass.cache->filled() + time};
    key = pass.cache->keys(layer, time);
    value = pass.cache->values(layer, time);
  }
  if (!transform_first) key = encoding.transform_key(key, config.kv_heads, context);
  return {pass.hook(HookPoint::query, layer, query), pass.hook(HookPoint::key, layer, key),
          pass.hook(HookPoint::value, layer, value)};
}

AttentionOptions options_of(const AttentionConfig& config, const std::string& path, int layer,
                            const Mask& mask, const PositionContext& context, const Pass& pass) {
  AttentionOptions options;
  options.heads = config.heads;
  options.kv_heads = config.kv_heads;
  options.scale = config.scale;
  options.softcap = config.softcap;
  options.normaliser = config.normaliser;
  options.mask = &mask;
  options.distance_bias = {context.distance_table, context.first_distance, context.query.values,
                           context.distance_keys.values};
  if (pass.training && config.dropout > 0)
    options.dropout = {config.dropout, pass.random.stream(path + ".pattern"), pass.first_example};
  if (pass.statistics) options.statistics = pass.statistics->layer(layer);
  return options;
}

Var attend(const Operands& operands, const AttentionOptions& options,
           const PositionalEncoding& encoding, int layer, const PositionContext& context,
           const Pass& pass, const ScoreTransform& transform) {
  const auto& [query, key, value, keys_in_cache] = operands;
  if (key.is_null()) {
    return attention_over_cache(query.value(), pass.cache->layer(layer), keys_in_cache,
                                context.score_bias.value(), options);
  }
  const bool looks_inside = pass.hooks && pass.hooks->wants_inside_of_attention(layer);
  if (!transform && !encoding.depends_on_content() && !looks_inside)
    return attention(query, key, value, context.score_bias, options);

  AttentionStages stages;
  stages.scores = [&](const Var& plain, const Array& keep) {
    const Var bias =
        encoding.content_bias(operands.query, operands.key, plain, keep, layer, context, pass);
    const Var scores = pass.hook(HookPoint::scores, layer, bias.is_null() ? plain : plain + bias);
    return transform ? transform(scores, keep) : scores;
  };
  stages.pattern = [&](const Var& pattern) {
    return pass.hook(HookPoint::pattern, layer, pattern);
  };
  Var weights;
  stages.weights = [&](const Var& dropped) { return weights = dropped; };
  const Var mixed = attention_textbook(query, key, value, context.score_bias, options, stages);
  const Var term = encoding.value_term(weights, layer, context, pass);
  return term.is_null() ? mixed : mixed + term;
}

Var attend(const Operands& operands, const AttentionConfig& config, const std::string& path,
           const PositionalEncoding& encoding, int layer, const PositionContext& context,
           const Pass& pass, const ScoreTransform& transform) {
  const Mask mask = pass.mask ? config.mask & *pass.mask : config.mask;
  return attend(operands, options_of(config, path, layer, mask, context, pass), encoding, layer,
                context, pass, transform);
}

}  // namespace attune::attention_parts
