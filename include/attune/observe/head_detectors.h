#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attune/array/array.h"
#include "attune/model/transformer.h"

// Which heads do one of three things that are known from language models (Elhage et al. 2021;
// Olsson et al. 2022), as the mean weight p_ij that queries i give to the keys in question:
//   previous token   mean over i >= 1 of p_i,i-1
//   duplicate token  mean over i with an earlier equal token of sum of p_ij over j < i, t_j = t_i
//   induction        the same, over the keys behind those: sum of p_i,j+1 over j + 1 < i, t_j = t_i
// 1: that is all a head attends to. Of the normalisers sigmoid and relu, whose rows are no
// distributions, they are means of plain weights.
namespace attune {

struct HeadScores {
  double previous_token = 0;
  double duplicate_token = 0;
  double induction = 0;
};

// pattern: [batch, heads, query, key] of the tokens [batch, key], query = key -> one a head; 0
// where no query has such a key. Throws ShapeError where they do not fit.
[[nodiscard]] std::vector<HeadScores> score_heads(const Array& pattern,
                                                  std::span<const std::int32_t> tokens);

// Tokens to score heads on: random ones, repeated with a period that is drawn for each example from
// time / 4 to time / 2, so that a head which looks a fixed distance back scores nothing. Within a
// period no token occurs twice where the vocabulary allows it.
struct ProbeTokens {
  std::vector<std::int32_t> tokens;  // [batch, time]
  std::int64_t batch = 0;
  std::int64_t time = 0;

  [[nodiscard]] TokenBatch batch_of() const { return {tokens, batch, time}; }
};
// A function of its arguments. Throws ValueError for a vocabulary or batch below 1 or time < 2.
[[nodiscard]] ProbeTokens repeated_random_tokens(std::int64_t vocabulary, std::int64_t batch,
                                                 std::int64_t time, std::uint64_t seed = 0);
// For a model: 32 examples as long as its context, of 8 to 128 tokens.
[[nodiscard]] ProbeTokens probe_tokens(const Transformer& model);

// Scores of all heads of a model.
struct HeadTable {
  int layers = 0;
  int heads = 0;                   // distributions of a layer; 0: the kind of attention has none
  std::vector<HeadScores> scores;  // [layers, heads]

  [[nodiscard]] const HeadScores& at(int layer, int head) const {
    return scores[static_cast<std::size_t>(layer * heads + head)];
  }
};
// One forward pass without dropout.
[[nodiscard]] HeadTable detect_heads(const Transformer& model, const TokenBatch& batch);

}  // namespace attune
