#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/linear.h"

namespace attune {

struct AdditiveAttentionConfig {
  std::int64_t decoder = 128;  // width of the queries
  std::int64_t encoder = 128;  // width of the memory
  std::int64_t hidden = 128;   // width in which the two meet
  bool bias = false;           // b below
};

// What a query takes from a memory, and how much of each entry.
struct Attended {
  Var mixed;    // [batch, query, encoder]
  Var weights;  // [batch, query, key]: each row sums to 1 over the keys that the mask keeps
};

// Additive attention (Bahdanau, Cho & Bengio 2015, appendix A.1.2): a decoder's state s_i looks at
// the encoder's states h_j through a small network, so that the two may differ in width:
//   e_ij = v^T tanh(W s_i + U h_j + b)     a_i = softmax(e_i)     c_i = sum_j a_ij h_j
// Parameters: query.weight W [hidden, decoder], with bias query.bias b [hidden]; key.weight
// U [hidden, encoder]; score.weight v [1, hidden]. One head. A pass's mask is padding of the
// memory: what it drops may be NaN, and a query that keeps nothing gets zeros. Takes batch * query
// * key * hidden numbers, hidden times what products of queries and keys take.
class AdditiveAttention final {
 public:
  AdditiveAttention(const Scope& scope, const AdditiveAttentionConfig& config,
                    const InitScheme& init, int layer);

  // query: [batch, query, decoder], memory: [batch, key, encoder]. Throws ShapeError for others.
  [[nodiscard]] Attended operator()(const Var& query, const Var& memory, const Pass& pass) const;

  // The same in two parts, for a decoder that asks step by step: U h, once for all steps, [batch,
  // key, hidden]; then the attention of one or several queries.
  [[nodiscard]] Var keys(const Var& memory, const Pass& pass) const;
  [[nodiscard]] Attended attend(const Var& query, const Var& keys, const Var& memory,
                                const Pass& pass) const;

 private:
  AdditiveAttentionConfig config_;
  std::string path_;
  int layer_;
  Linear query_;
  Linear key_;
  Linear score_;
};

}  // namespace attune
