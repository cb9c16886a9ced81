#include "attune/nn/attention/additive.h"

#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/attention/parts.h"

namespace attune {

using namespace attention_parts;

AdditiveAttention::AdditiveAttention(const Scope& scope, const AdditiveAttentionConfig& config,
                                     const InitScheme& init, int layer)
    : config_(config),
      path_(scope.path()),
      layer_(layer),
      query_(scope / "query", config.decoder, config.hidden, config.bias, init),
      key_(scope / "key", config.encoder, config.hidden, false, init),
      score_(scope / "score", config.hidden, 1, false, init) {}

Attended AdditiveAttention::operator()(const Var& query, const Var& memory,
                                       const Pass& pass) const {
  return attend(query, keys(memory, pass), memory, pass);
}

Var AdditiveAttention::keys(const Var& memory, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  expect_width("additive attention", "memory", memory, config_.encoder);
  return key_(pass.mask ? select_kept(memory, *pass.mask, 1) : memory, pass);
}

Attended AdditiveAttention::attend(const Var& query, const Var& keys, const Var& memory,
                                   const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  expect_width("additive attention", "query", query, config_.decoder);
  expect_width("additive attention", "keys", keys, config_.hidden);
  expect_width("additive attention", "memory", memory, config_.encoder);
  const std::int64_t batch = query.shape()[0], queries = query.shape()[1];
  const std::int64_t entries = keys.shape()[1], hidden = config_.hidden;

  const Var asked = reshape(query_(query, pass), {batch, queries, 1, hidden});
  const Var found = reshape(keys, {keys.shape()[0], 1, entries, hidden});
  const Var scores = score_(tanh(asked + found), pass);  // [batch, query, key, 1]

  AttentionOptions options = options_of(pass, 1, layer_);
  options.mask = pass.mask;
  const Mixture mixture = mix(reshape(scores, {batch, 1, queries, entries}), memory, options);
  return {mixture.mixed, reshape(mixture.weights, {batch, queries, entries})};
}

}  // namespace attune
