#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "attune/nn/multi_head_attention.h"

namespace attune {

struct LatentAttentionConfig {
  std::int64_t latents = 8;   // M, however long the memory is
  std::int64_t model = 128;   // width of a latent
  std::int64_t memory = 128;  // width of what they read
  std::int64_t heads = 4;
  std::int64_t head_dim = 32;
  bool bias = false;
};

// Latent cross-attention (Perceiver, Jaegle et al. 2021, section 3.1): M learned vectors read T
// tokens, so that a long input becomes an array of fixed size in one step:
//   y = L + attention(queries of L, keys and values of memory)
// Costs M * T scores a head, where self-attention costs T * T.
// Parameters: latent.weight L [latents, model]; those of MultiHeadAttention below "attention".
// Latents have no position; that of a token is what the memory says of it. A pass's mask is
// padding of the memory.
class LatentCrossAttention final {
 public:
  // Throws ConfigError for fewer than one latent.
  LatentCrossAttention(const Scope& scope, const LatentAttentionConfig& config,
                       const InitScheme& init, int layer);

  // memory: [batch, time, memory] -> [batch, latents, model]
  [[nodiscard]] Var operator()(const Var& memory, const Pass& pass) const;

 private:
  std::string path_;
  const Parameter& latents_;
  std::unique_ptr<PositionalEncoding> no_positions_;
  MultiHeadAttention attention_;
};

}  // namespace attune
