#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/feed_forward.h"
#include "attune/nn/masks.h"
#include "attune/nn/norm.h"
#include "attune/nn/self_attention.h"

namespace attune {

// A field that was not given and follows another one until resolved() fills it.
inline constexpr double kFollows = -1;
inline constexpr std::int32_t kNoToken = -1;

enum class NormPosition : std::uint8_t { pre, post };

// The shape of a decoder-only transformer. Every field is an option of `attune train`.
struct TransformerConfig {
  std::int64_t vocabulary = 65;
  std::int64_t block_size = 64;  // largest context in tokens: the length of a table of learned
                                 // positions; 0: as the task needs
  std::int64_t n_layer = 4;
  std::int64_t n_head = 4;
  std::int64_t n_kv_head = 0;  // heads of keys and values, a divisor of n_head; 0: n_head
  std::int64_t n_embd = 128;   // width of the residual stream
  std::int64_t head_dim = 0;   // width of a head's queries and keys; 0: n_embd / n_head
  std::int64_t value_dim = 0;  // width of a head's values; 0: head_dim
  std::int64_t d_ff = 0;       // hidden width of the feed-forward layer; 0: 4 * n_embd
  Activation activation = Activation::gelu;
  bool ffn = true;       // false: attention-only blocks
  bool residual = true;  // false: no skip connections (to study rank collapse)
  NormKind norm = NormKind::layernorm;
  NormPosition norm_position = NormPosition::pre;
  std::string positions = "learned";  // a registered positional encoding
  double position_scale = 2;          // how far encodings that stretch positions stretch them
  // L > 0: tokens stand at a sorted sample of [0, L) instead of 0, 1, ... (Ruoss et al. 2023)
  std::int64_t random_positions = 0;
  std::string attention = "dot-product";       // a registered kind of attention
  std::string mask = "causal";                 // registered masks, joined by '+'
  MaskSizes mask_sizes;                        // what they are made with
  std::int32_t document_separator = kNoToken;  // the last token of a document (mask documents)
  double attention_scale = 0;                  // factor on the scores; 0: 1/sqrt(head_dim)
  double softcap = 0;                          // c tanh(score / c); 0: off
  Normaliser normaliser = Normaliser::softmax;
  Sink sink = Sink::none;
  double temperature = 1;  // of attention: scores are divided by it; kLearned: a head's own
  bool qk_norm = false;    // RMS norm of every head's queries and keys
  TalkingHeads talking_heads = TalkingHeads::none;
  std::int64_t top_k = 8;               // keys that top-k attention keeps
  std::int64_t experts = 4;             // of a mixture of attentions
  std::int64_t features = 64;           // of a head in random-feature attention
  bool bias = false;                    // biases in linear maps and layer norms
  bool tie_head = true;                 // the output head is the token embedding's table
  std::string init = "gpt2";            // a registered initialisation
  double init_std = 0.02;               // standard deviation of gpt2's weights and of embeddings
  double dropout = 0;                   // on embeddings, attention outputs and feed-forward outputs
  double attention_dropout = kFollows;  // on attention weights; kFollows: equal to dropout

  // Fills n_kv_head, head_dim, value_dim, d_ff and attention_dropout. Throws ConfigError naming the
  // option, the value found and what was expected where a field is outside its domain or fields do
  // not fit each other. Names of positions and initialisations are checked where they are looked
  // up.
  [[nodiscard]] TransformerConfig resolved() const;
};

}  // namespace attune
