#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

#include "attune/core/attention_statistics.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"

// Scaled dot-product attention (Vaswani et al. 2017) of all heads of a batch, on raw storage:
// Arrays and the filled part of a key-value buffer alike. With the mask's kept keys of a query row
// i,
//
//   S = cap(scale Q K^T + bias + table[distance]), cap(s) = c tanh(s / c)   score
//   P_ij = e^(S_ij - m_i) / Z_i over kept j, exactly 0 elsewhere            normalise
//   O = dropout(P) V                                                        combine
//
// A key whose score is -inf counts as not kept. What lies in keys and values that no query row of a
// key head keeps is selected away, never multiplied by 0. The result of one example and head is
// bitwise independent of the other examples, and that of a query row of the other rows.
namespace attune::kernels {

// Rows of [batch, time, heads * width]: head h of row i of example b begins at
// data + b * batch_stride + i * row_stride + h * width. Strides count elements; a buffer with room
// for more rows than are filled has a batch_stride to match.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t row_stride = 0;
};

struct AttentionExtents {
  std::int64_t batch = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  // divides heads; query head h reads key head h / (heads / kv_heads)
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
};

// A bias that depends on how far a key stands from the query: table[h, key position - query
// position
// - first]. Positions [1 or batch, time]; strides are 0 for one row.
template <std::floating_point T>
struct DistanceTable {
  const T* table = nullptr;  // [heads, distances]; null: none
  std::int64_t distances = 0;
  std::int64_t first = 0;
  const std::int32_t* query = nullptr;
  const std::int32_t* key = nullptr;
  std::int64_t query_stride = 0;
  std::int64_t key_stride = 0;
};

template <std::floating_point T>
struct AttentionOperands {
  AttentionExtents extents;
  HeadRows<const T> query;  // heads of head_dim
  HeadRows<const T> key;    // kv_heads of head_dim
  HeadRows<const T> value;  // kv_heads of value_dim
  const T* bias = nullptr;  // [1 or batch, heads, query, key]; null: none
  bool bias_per_example = false;
  DistanceTable<T> distance;
  double scale = 1;
  double softcap = 0;          // 0: none
  const Mask* mask = nullptr;  // null: keeps everything; the backward pass reads its band alone
  double dropout_rate = 0;
  RandomStream dropout_stream{0, 0, 0};  // row ((first_example + b) * heads + h) * query + i
  std::int64_t first_example = 0;
};

// What the forward pass leaves for the backward pass, in blocks that the caller allocates. Rows of
// scores are padded_keys() long; tiles beyond the mask's band are neither written nor read.
template <std::floating_point T>
struct AttentionMemory {
  // [batch, heads, query, padded keys]: P before dropout, negative (-0 included) where dropout
  // drops it.
  T* probabilities = nullptr;
  // The same extents: S after the softcap. Null without one.
  T* capped = nullptr;
  // [batch, kv_heads, key]: 1 where any query row keeps the key, else 0. Null for a mask that is a
  // band.
  T* kept = nullptr;
};
template <std::floating_point T>
[[nodiscard]] std::int64_t padded_keys(std::int64_t keys);

// output: heads of value_dim. memory: null pointers where there will be no backward pass.
// statistics: [heads], added to; empty: not wanted. They change no bit of the output.
template <std::floating_point T>
void attention(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
               HeadRows<T> output, std::span<HeadStatistics> statistics);

// A gradient to write: null data: not wanted. Adds to what is there where `accumulate` is set.
template <std::floating_point T>
struct GradientRows {
  HeadRows<T> rows;
  bool accumulate = false;
};
template <std::floating_point T>
struct AttentionGradients {
  GradientRows<T> query, key, value;
  T* bias = nullptr;      // shape of the bias, always added to; null: not wanted
  T* distance = nullptr;  // shape of the distance table, always added to; null: not wanted
};

// With D = dropout(P) and G = dO V^T:
//   dV = D^T dO
//   dS_ij = (D_ij G_ij - P_ij sum_k D_ik G_ik) cap'_ij, cap' = 1 - (S / c)^2
//   dbias = dS, summed over examples that share it; dtable = dS, summed over equal distances
//   dQ = scale dS K, dK = scale dS^T Q
template <std::floating_point T>
void attention_backward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
                        HeadRows<const T> output_gradient, const AttentionGradients<T>& gradients);

// The same two for long sequences, in memory linear in their lengths (FlashAttention-2, Dao 2023):
// scores exist for one block of keys at a time. Forward, each row keeps a running maximum m and
// sums relative to it; a block with a larger maximum m' first scales the old sums by e^(m - m')
// ("online softmax", Milakov & Gimelshein 2018):
//   Z <- aZ + sum_j e^(S_j - m'),  a = e^(m - m'),  O <- aO + sum_j e^(S_j - m') V_j
// Backward computes the scores again, and P_ij = e^(S_ij - m_i - ln Z_i) from the row's
// maximum and log-partition; sum_k D_ik G_ik is dO_i . O_i. Dropout draws its bits again. Equal to
// the pair above up to rounding; so are the statistics. The mask is read by both passes.
//
// partition: [batch, heads, query, 2], m and ln Z of each row; m is +inf for one without a key.
// Null: not wanted.
template <std::floating_point T>
void attention_tiled(const AttentionOperands<T>& operands, HeadRows<T> output, T* partition,
                     std::span<HeadStatistics> statistics);
template <std::floating_point T>
void attention_tiled_backward(const AttentionOperands<T>& operands, HeadRows<const T> output,
                              const T* partition, HeadRows<const T> output_gradient,
                              const AttentionGradients<T>& gradients);

// The pairs of query and key that a mask keeps, row by row, written down once for all examples and
// heads that do not differ in them.
struct KeptPairs {
  std::int64_t examples = 1;  // 1 or the batch
  std::int64_t heads = 1;     // 1 or the heads
  std::int64_t query = 0;
  std::vector<std::int64_t> begin;  // [examples, heads, query + 1]: of a row in `keys`
  std::vector<std::int32_t> keys;   // ascending in a row

  [[nodiscard]] std::span<const std::int32_t> row(std::int64_t example, std::int64_t head,
                                                  std::int64_t i) const;
  // Of all examples and heads of these extents: the size of the weights.
  [[nodiscard]] std::int64_t count(const AttentionExtents& extents) const;
};
[[nodiscard]] KeptPairs kept_pairs(const Mask& mask, const AttentionExtents& extents);

// The same two for masks that keep few pairs: work and memory in proportion to the pairs, nothing
// for the others. Equal to the first pair up to rounding.
//
// weights: [pairs.count()], P of every kept pair before dropout, example by example, head by head,
// row by row; negative (-0 included) where dropout drops it. Null: not wanted.
template <std::floating_point T>
void attention_sparse(const AttentionOperands<T>& operands, const KeptPairs& pairs,
                      HeadRows<T> output, T* weights, std::span<HeadStatistics> statistics);
template <std::floating_point T>
void attention_sparse_backward(const AttentionOperands<T>& operands, const KeptPairs& pairs,
                               const T* weights, HeadRows<const T> output_gradient,
                               const AttentionGradients<T>& gradients);

}  // namespace attune::kernels
