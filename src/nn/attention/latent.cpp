#include "attune/nn/attention/latent.h"

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "nn/attention/parts.h"

namespace attune {
namespace {

AttentionConfig cross_attention(const LatentAttentionConfig& config) {
  if (config.latents < 1) {
    throw ConfigError("latent attention: " + std::to_string(config.latents) +
                      " latents, expected 1 or more");
  }
  AttentionConfig attention;
  attention.model = config.model;
  attention.memory = config.memory;
  attention.heads = config.heads;
  attention.head_dim = config.head_dim;
  attention.bias = config.bias;
  attention.mask = Mask::none();
  return attention;
}

const Parameter& latents_of(const Scope& scope, const LatentAttentionConfig& config,
                            const InitScheme& init) {
  const Shape shape{config.latents, config.model};
  return (scope / "latent").parameter("weight", shape, init(Role::embedding, shape));
}

}  // namespace

LatentCrossAttention::LatentCrossAttention(const Scope& scope, const LatentAttentionConfig& config,
                                           const InitScheme& init, int layer)
    : path_(scope.path()),
      latents_(latents_of(scope, config, init)),
      no_positions_(make_positional_encoding("none", scope, {}, init)),
      attention_(scope / "attention", cross_attention(config), *no_positions_, init, layer) {}

Var LatentCrossAttention::operator()(const Var& memory, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  attention_parts::expect_rank("latent attention", "memory", memory, 3);
  const Shape& latents = latents_.shape();
  const Var queries =
      broadcast_to(pass(latents_), Shape{memory.shape()[0], latents[0], latents[1]});
  return queries + attention_(queries, memory, {}, pass);
}

}  // namespace attune
