#include "attune/nn/attention/maps.h"

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune {

AttentionConfig resolved(const std::string& what, AttentionConfig config) {
  if (config.memory == 0) config.memory = config.model;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.value_dim == 0) config.value_dim = config.head_dim;
  if (config.heads < 1 || config.kv_heads < 1 || config.heads % config.kv_heads != 0) {
    throw ConfigError(fmt::format("{}: {} key heads do not divide {} query heads", what,
                                  config.kv_heads, config.heads));
  }
  return config;
}

AttentionMaps::AttentionMaps(const Scope& scope, const AttentionConfig& config,
                             const InitScheme& init)
    : query(scope / "query", config.model, config.heads * config.head_dim, config.bias, init),
      key(scope / "key", config.memory, config.kv_heads * config.head_dim, config.bias, init),
      value(scope / "value", config.memory, config.kv_heads * config.value_dim, config.bias, init),
      output(scope / "output", config.heads * config.value_dim, config.model, config.bias, init,
             Role::residual_projection) {}

}  // namespace attune
