#include "attune/nn/attention/differential.h"

#include <cmath>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/attention/dot_product.h"
#include "nn/attention/kinds.h"

namespace attune {

using namespace attention_parts;

namespace {

AttentionConfig differential_config(const AttentionConfig& config,
                                    const PositionalEncoding& encoding) {
  if (config.heads % 2 != 0) {
    throw ConfigError("--attention differential: " + std::to_string(config.heads) +
                      " heads, expected an even number: two maps make a head");
  }
  if (encoding.depends_on_content()) {
    throw ConfigError("--attention differential: --pos " + std::string(encoding.name()) +
                      " depends on content, expected an encoding of positions alone");
  }
  return checked("differential", config, {.scale = true, .softcap = true, .dropout = true});
}

const Parameter& lambda_vector(const Scope& scope, const char* name, std::int64_t width) {
  return scope.parameter(name, {width}, Initializer::normal(0.1), {.decays = false});
}

}  // namespace

DifferentialAttention::DifferentialAttention(const Scope& scope, const AttentionConfig& config,
                                             const PositionalEncoding& encoding,
                                             const InitScheme& init, int layer)
    : config_(differential_config(config, encoding)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      lambda_init_(0.8 - 0.6 * std::exp(-0.3 * layer)),
      maps_(scope, config_, init),
      lambda_query_1_(lambda_vector(scope, "lambda_query_1", config_.head_dim)),
      lambda_key_1_(lambda_vector(scope, "lambda_key_1", config_.head_dim)),
      lambda_query_2_(lambda_vector(scope, "lambda_query_2", config_.head_dim)),
      lambda_key_2_(lambda_vector(scope, "lambda_key_2", config_.head_dim)),
      norm_(scope / "norm", NormKind::rmsnorm, 2 * config_.head_dim, false) {}

Var DifferentialAttention::lambda(const Pass& pass) const {
  const auto strength = [&](const Parameter& query, const Parameter& key) {
    return exp(sum(pass(query) * pass(key)));
  };
  return strength(lambda_query_1_, lambda_key_1_) - strength(lambda_query_2_, lambda_key_2_) +
         lambda_init_;
}

// Mixing is linear: (A_1 - lambda A_2) V = A_1 V - lambda A_2 V, so that both maps of a head run as
// heads of one call and read the same values.
Var DifferentialAttention::operator()(const Var& x, const PositionContext& context,
                                      const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  Operands operands =
      with_positions_and_cache({maps_.query(x, pass), maps_.key(x, pass), maps_.value(x, pass)},
                               config_, encoding_, layer_, context, pass);
  const std::int64_t batch = x.shape()[0], query = x.shape()[1], key = operands.key.shape()[1];
  const std::int64_t heads = config_.heads / 2, width = 2 * config_.head_dim;
  const Var of_head = reshape(operands.value, {batch, key, heads, 1, width});
  operands.value = reshape(broadcast_to(of_head, Shape{batch, key, heads, 2, width}),
                           {batch, key, 2 * heads * width});

  const Var mixed = attend(operands, config_, path_, encoding_, layer_, context, pass);
  const Var maps = reshape(mixed, {batch, query, heads, 2, width});
  const Var difference = slice(maps, 3, 0, 1) - lambda(pass) * slice(maps, 3, 1, 2);
  const Var normalised = norm_(reshape(difference, {batch, query, heads, width}), pass);
  const Var heads_out = reshape(normalised * (1 - lambda_init_), {batch, query, heads * width});
  return maps_.output(pass.hook(HookPoint::head_output, layer_, heads_out), pass);
}

std::unique_ptr<SelfAttention> attention_kind::make_differential(const Scope& scope,
                                                                 const AttentionConfig& config,
                                                                 const PositionalEncoding& encoding,
                                                                 const InitScheme& init,
                                                                 int layer) {
  return std::make_unique<DifferentialAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
