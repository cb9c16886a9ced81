#pragma once

#include <cstdint>

#include "attune/nn/pass.h"

namespace attune {

// Attention over a memory outside the weights: queries find the k entries whose keys they match
// best, exactly, and attend to those alone (the k-nearest-neighbour attention of Memorizing
// Transformers, Wu et al. 2022, with an exhaustive search):
//   y = sum_(j in top k) softmax_j(scale q . k_j) v_j
// Where the full softmax has mass m on those k entries, y differs from full attention over the
// memory by at most 2 (1 - m) max |v|.
//
// What stands in the memory is data: facts can be added and replaced without training, and no
// gradient flows into it; one flows to the queries. Each head has keys and values of its own.
class ExternalMemory final {
 public:
  // Throws ConfigError unless all extents are 1 or more.
  ExternalMemory(std::int64_t heads, std::int64_t key_dim, std::int64_t value_dim, DType dtype);

  [[nodiscard]] std::int64_t entries() const { return entries_; }
  // keys: [count, heads * key_dim], values: [count, heads * value_dim]. Costs a copy of what is
  // there. Throws ShapeError for other extents or dtypes.
  void add(const Array& keys, const Array& values);
  void clear();

  struct Search {
    std::int64_t top = 32;  // entries a query attends to; the memory's where it has fewer
    double scale = 0;       // factor on the scores; 0: 1/sqrt(key_dim)
    int layer = 0;          // where a pass's statistics count its weights, over the entries found
  };
  // query: [batch, time, heads * key_dim] -> [batch, time, heads * value_dim]; zeros while the
  // memory is empty. Compares each query with each key. Throws ShapeError for another width or
  // dtype, ValueError for top < 1.
  [[nodiscard]] Var operator()(const Var& query, const Search& search, const Pass& pass) const;

 private:
  std::int64_t heads_;
  std::int64_t key_dim_;
  std::int64_t value_dim_;
  std::int64_t entries_ = 0;
  Array keys_;    // [entries, heads * key_dim]
  Array values_;  // [entries, heads * value_dim]
};

}  // namespace attune
