#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attune/core/mask.h"
#include "attune/nn/positional_encoding.h"
#include "attune/ops/attention.h"

namespace attune {

// A key without a place in the sequence, with value 0, that a softmax may turn to.
enum class Sink : std::uint8_t {
  none,
  zero,     // its score is 0: e^s / (1 + sum e^s) (Miller 2023)
  learned,  // its score is a parameter of each head (Xiao et al. 2024)
};

// A number that training finds.
inline constexpr double kLearned = -2;

// Where heads exchange what they found (Shazeer et al. 2020).
enum class TalkingHeads : std::uint8_t { none, before, after, both };

// What a kind of attention is made from. Kinds that have no use for a field refuse it where it is
// not at its default.
struct AttentionConfig {
  std::int64_t model = 128;  // width of the input and of the output
  std::int64_t memory = 0;  // width of what keys and values are made of (cross-attention); 0: model
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;   // heads of keys and values; 0: heads
  std::int64_t head_dim = 32;  // width of a head's queries and keys
  std::int64_t value_dim = 0;  // width of a head's values; 0: head_dim
  double scale = 0;            // factor on the scores; 0: 1/sqrt(head_dim)
  double softcap = 0;          // c tanh(score / c); 0: off
  double dropout = 0;          // on attention weights
  bool bias = false;
  Mask mask = Mask::causal();  // the layer's own; AND-ed with the pass's
  Normaliser normaliser = Normaliser::softmax;
  Sink sink = Sink::none;
  // What scores are divided by, each head's own; kLearned: parameters that start at 1.
  double temperature = 1;
  bool qk_norm = false;  // RMS norm of every head's queries and keys (Henry et al. 2020)
  TalkingHeads talking_heads = TalkingHeads::none;
  std::int64_t top_k = 8;      // keys that top-k attention keeps
  std::int64_t experts = 4;    // of a mixture of attentions
  std::int64_t features = 64;  // of a head in random-feature attention
};

// What stands between the norm and the residual sum of a block: tokens read tokens. One kind is one
// final class in one file; `attune list attention` names them.
class SelfAttention {
 public:
  virtual ~SelfAttention() = default;

  // x: [batch, time, model] -> [batch, time, model]
  [[nodiscard]] virtual Var operator()(const Var& x, const PositionContext& context,
                                       const Pass& pass) const = 0;

  // Distributions over keys that a pass adds to the statistics, as many in every layer; 0: there
  // are none to log.
  [[nodiscard]] virtual std::int64_t logged_heads() const = 0;
  // What a token takes in a KV-cache, in numbers.
  struct CacheWidths {
    std::int64_t key;
    std::int64_t value;
  };
  [[nodiscard]] virtual CacheWidths cache_widths() const = 0;
};

// Makes a registered kind with its parameters below `scope`; the encoding must outlive it. Throws
// ConfigError for an unknown name, with the nearest ones, and for what the kind cannot do.
[[nodiscard]] std::unique_ptr<SelfAttention> make_self_attention(std::string_view kind,
                                                                 const Scope& scope,
                                                                 const AttentionConfig& config,
                                                                 const PositionalEncoding& encoding,
                                                                 const InitScheme& init, int layer);

struct AttentionInfo {
  std::string name;
  std::string description;
};
[[nodiscard]] std::vector<AttentionInfo> list_attention();

}  // namespace attune
