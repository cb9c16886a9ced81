#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/multi_head_attention.h"

namespace attune {

struct AxialAttentionConfig {
  std::int64_t model = 128;
  std::int64_t heads = 4;
  std::int64_t head_dim = 32;
  bool bias = false;
};

// Axial attention over a grid (Ho et al. 2019): each place attends to its row, then to its column,
// so that two steps reach every place:
//   h = x + attention_rows(x)       y = attention_rows(x) + attention_columns(h)
// x + y is what two residual layers would make. A grid of H rows and W columns costs H W (H + W)
// scores a head, where attention over all places costs (H W)^2.
// Parameters: those of MultiHeadAttention below "rows" and "columns". Positions are places along
// an axis, seen through one encoding for both. Nothing is masked.
class AxialAttention final {
 public:
  // The encoding must outlive the layer. Statistics and hooks see the rows as `layer`, the columns
  // as `layer` + 1.
  AxialAttention(const Scope& scope, const AxialAttentionConfig& config,
                 const PositionalEncoding& encoding, const InitScheme& init, int layer);

  // x: [batch, rows, columns, model] -> the same shape. Throws UsageError for a pass with a mask or
  // a cache.
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass) const;

 private:
  [[nodiscard]] Var along_last(const MultiHeadAttention& attention, const Var& x,
                               const Pass& pass) const;

  std::string path_;
  const PositionalEncoding& encoding_;
  MultiHeadAttention rows_;
  MultiHeadAttention columns_;
};

}  // namespace attune
