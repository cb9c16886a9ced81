#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/attention_tile.h"

// What happens to the scores of one tile between the two matrix products. `s` points to the tile's
// first row and its key `origin`; rows are `stride` apart.
namespace attune::kernels {

// s += bias + table[distance]
template <std::floating_point T>
void add_bias(const AttentionOperands<T>& operands, const Tile& tile, T* s, std::int64_t stride);
// dbias += ds, dtable += ds, where they are wanted
template <std::floating_point T>
void add_bias_gradient(const AttentionOperands<T>& operands, const Tile& tile, const T* ds,
                       std::int64_t stride, const AttentionGradients<T>& gradients);

// s = c tanh(s / c); nothing without a softcap
template <std::floating_point T>
void cap_scores(double softcap, const Tile& tile, T* s, std::int64_t stride);

// Which keys any query row of a key head's group keeps, 1 or 0: [key]. For a mask that is no band;
// `flags` has room for a row of keys.
template <std::floating_point T>
void find_kept_keys(const AttentionOperands<T>& operands, std::int64_t example,
                    std::int64_t kv_head, std::uint8_t* flags, T* kept);
// Which keys the rows of a tile keep, from key `origin` on, rows `stride` apart.
template <std::floating_point T>
void fill_flags(const AttentionOperands<T>& operands, const Tile& tile, std::uint8_t* flags,
                std::int64_t stride);
// s_ij = -inf where row i does not keep key j. `keep`: flags of the tile's first row, from key
// `origin` on, rows `keep_stride` apart; null where the mask is a band.
template <std::floating_point T>
void select_kept(const AttentionOperands<T>& operands, const Tile& tile, const std::uint8_t* keep,
                 std::int64_t keep_stride, T* s, std::int64_t stride);

// s = softmax(s), row by row, whose sums are added to the head's statistics where those are wanted.
template <std::floating_point T>
void normalise(const AttentionOperands<T>& operands, const Tile& tile, T* s, std::int64_t stride,
               std::span<HeadStatistics> statistics);

// d = dropout(p), where p may be d. With `mark`, the weights that are dropped are left negative in
// p, -0 included. `words` has room for tile.columns and 3 more.
template <std::floating_point T>
void drop_weights(const AttentionOperands<T>& operands, const Tile& tile, std::uint32_t* words,
                  bool mark, T* p, T* d, std::int64_t stride);

}  // namespace attune::kernels
