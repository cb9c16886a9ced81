#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "attune/autodiff/var.h"
#include "attune/core/attention_statistics.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"

namespace attune {

// Dropout on attention weights: bits at (example in the whole batch, head, query, key), each query
// row padded to a multiple of 4.
struct AttentionDropout {
  double rate = 0;
  RandomStream stream{0, 0, 0};
  std::int64_t first_example = 0;  // of this shard in the whole batch
};

// A bias that depends on how far a key stands from the query: row h of the table, at key position -
// query position - first. Less than [query, key] numbers a head, and kept so.
struct DistanceBias {
  Var table;                                        // [heads, distances]; null: none
  std::int64_t first = 0;                           // the distance of the table's column 0
  std::span<const std::int32_t> query_positions{};  // [1 or batch, query]
  std::span<const std::int32_t> key_positions{};    // [1 or batch, key]
};
// The same as a bias of all scores: [1 or batch, heads, query, key].
[[nodiscard]] Var expand(const DistanceBias& bias, std::int64_t query, std::int64_t key);

// How attention is computed; the forms agree up to rounding.
enum class AttentionForm : std::uint8_t {
  automatic,  // sparse from 128 keys on where the mask keeps at most one pair in sixteen and is
              // no band; else stored up to 1024 keys, tiled beyond. Extents and mask alone decide
  stored,     // keeps the weights [batch, heads, query, key] for the backward pass
  tiled,      // keeps two numbers a query row; scores are computed again, block by block of keys,
              // in memory linear in the lengths (FlashAttention, Dao et al. 2022)
  sparse,     // pair by pair: work and memory in proportion to the pairs that the mask keeps
};

// How the scores s of a query row become weights, over the n keys that the row keeps.
enum class Normaliser : std::uint8_t {
  softmax,  // e^s / sum e^s
  sigmoid,  // 1 / (1 + e^-(s - ln n)): keys do not compete (Ramapuram et al. 2024)
  relu,     // max(s, 0) / n (Wortsman et al. 2023)
};

// What scaled dot-product attention (Vaswani et al. 2017) is asked to do beside its three operands.
struct AttentionOptions {
  std::int64_t heads = 1;
  // Heads of key and value; query head h reads key head h / (heads / kv_heads). 0: heads
  std::int64_t kv_heads = 0;
  double scale = 0;            // factor on the scores; 0: 1/sqrt(head_dim)
  double softcap = 0;          // c > 0: c tanh(score / c), after the bias and before the mask
  const Mask* mask = nullptr;  // null: keeps everything
  Normaliser normaliser = Normaliser::softmax;
  // [heads]: the logit of one more key, with value 0, that every row of a softmax keeps: attention
  // may go nowhere. Zeros: softmax with 1 added to its denominator. Null: none
  Var sink{};
  // [heads]: what the scores of a head are divided by, last before the normaliser. Null: 1
  Var temperature{};
  // [heads, heads]: head g gets sum_h mix[g, h] of the heads' scores, before the mask, and of their
  // weights, after dropout ("talking heads", Shazeer et al. 2020). Null: none
  Var mix_scores{};
  Var mix_weights{};
  AttentionDropout dropout{};  // rate 0: none
  AttentionForm form = AttentionForm::automatic;
  DistanceBias distance_bias{};
  std::span<HeadStatistics> statistics{};  // [heads], added to; empty: not wanted
};

// query: [batch, query, heads * head_dim]
// key:   [batch, key, kv_heads * head_dim]
// value: [batch, key, kv_heads * value_dim]
// bias:  [1 or batch, heads, query, key], added to the scaled scores, or null
//     -> [batch, query, heads * value_dim]
//
// For each example and head:
//   S = mix_scores(cap(scale Q K^T + bias + distance bias)) / temperature
//   P = normalise(S) over kept keys
//   O = mix_weights(dropout(P)) V
//
// Keys that the mask keeps for no query are selected away with their values: NaN there changes
// nothing, forward or backward. A query row without a key gives zeros and gradient 0. Entropies are
// of P before dropout and mixing, off the tape, with the sink as one of the keys; rows of sigmoid
// and relu are no distributions, so theirs are of P / sum P and say so (HeadStatistics::shares).
// Softmax without sink, temperature and mixing is one fused kernel in several forms, heads
// addressed by stride, nothing copied apart; the others are composed, as below.
[[nodiscard]] Var attention(const Var& query, const Var& key, const Var& value, const Var& bias,
                            const AttentionOptions& options);
// Whether attention() composes what is asked for.
[[nodiscard]] bool is_composed(const AttentionOptions& options);

// Where the composition below lets a caller look at or replace what passes between its stages;
// empty: nothing happens.
struct AttentionStages {
  // [batch, heads, query, key]: scaled, biased, capped, before the mask; `keep` [1 or batch, 1 or
  // heads, query, key] is 1 where the mask keeps a key, else 0
  std::function<Var(const Var& scores, const Array& keep)> scores;
  // [batch, heads, query, key]: weights before dropout
  std::function<Var(const Var&)> pattern;
  // The same after dropout and mixing: what values are weighed with.
  std::function<Var(const Var&)> weights;
};

// The same from primitive ops, stage by stage: the reference that the fused kernel is tested
// against, and what runs where somebody looks inside. Statistics are of the scores and weights that
// the stages let pass.
[[nodiscard]] Var attention_textbook(const Var& query, const Var& key, const Var& value,
                                     const Var& bias, const AttentionOptions& options,
                                     const AttentionStages& stages = {});

// Rotates pairs of features of each head by angles position * frequency (rotary embedding, Su et
// al. 2021): the first `rotated` <= head_dim features, in half-split pairs (k, k + rotated / 2) or,
// where interleaved, in neighbours (2k, 2k + 1).
// x:              [batch, time, heads * head_dim] -> the same shape
// cosines, sines: [1 or batch, time, rotated / 2]
[[nodiscard]] Var rotate_pairs(const Var& x, std::int64_t heads, const Array& cosines,
                               const Array& sines, bool interleaved);

}  // namespace attune
