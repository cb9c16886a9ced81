#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/attention.h"
#include "kernels/attention_stages.h"
#include "kernels/attention_tile.h"
#include "kernels/simd_batch.h"
#include "kernels/small_gemm.h"

// The backward pass of kernels/attention.cpp, in the symbols of kernels/attention.h. It walks the
// same tiles and needs neither the mask's flags nor the random bits: both are in the saved
// probabilities.
namespace attune::kernels {
namespace {

template <std::floating_point T>
class Backward final {
 public:
  Backward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
           HeadRows<const T> output_gradient, const AttentionGradients<T>& gradients);
  void run();

 private:
  void pack_keys(std::int64_t example, std::int64_t kv_head);
  void unpack_keys(std::int64_t example, std::int64_t kv_head);
  void walk(const Tile& tile);
  void score_gradient(const Tile& tile, const T* p);
  void write_query_gradient(const Tile& tile);
  void add_key_gradient(const Tile& tile);

  const AttentionOperands<T>& in_;
  const AttentionExtents& extents_;
  const AttentionMemory<T>& memory_;
  HeadRows<const T> output_gradient_;
  const AttentionGradients<T>& out_;
  T dropout_factor_;
  bool wants_scores_;  // any of query, key, bias and distance table
  std::int64_t score_stride_;
  std::int64_t key_stride_;            // of rows of head_dim
  std::int64_t value_stride_;          // of rows of value_dim
  std::int64_t transpose_stride_;      // of V^T
  Scratch<T> keys_;                    // [key, key_stride_]: scale K
  Scratch<T> values_;                  // [value_dim, transpose_stride_]: V^T
  Scratch<T> key_gradient_;            // [key, key_stride_]
  Scratch<T> value_gradient_;          // [key, value_stride_]
  Scratch<T> queries_;                 // [kTileRows, key_stride_]: scale Q
  Scratch<T> output_rows_;             // [kTileRows, value_stride_]: dO
  Scratch<T> query_gradient_;          // [kTileRows, key_stride_]
  Scratch<T> score_gradient_;          // [kTileRows, score_stride_]: G, then dS
  std::optional<Scratch<T>> dropped_;  // [kTileRows, score_stride_]: D
};

template <std::floating_point T>
Backward<T>::Backward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
                      HeadRows<const T> output_gradient, const AttentionGradients<T>& gradients)
    : in_(operands),
      extents_(operands.extents),
      memory_(memory),
      output_gradient_(output_gradient),
      out_(gradients),
      dropout_factor_(static_cast<T>(dropout_rule(operands.dropout_rate).factor)),
      wants_scores_(gradients.query.rows.data != nullptr || gradients.key.rows.data != nullptr ||
                    gradients.bias != nullptr || gradients.distance != nullptr),
      score_stride_(padded<T>(extents_.key)),
      key_stride_(padded<T>(extents_.head_dim)),
      value_stride_(padded<T>(extents_.value_dim)),
      transpose_stride_(spread<T>(extents_.key)),
      keys_(extents_.key * key_stride_),
      values_(extents_.value_dim * transpose_stride_),
      key_gradient_(extents_.key * key_stride_),
      value_gradient_(extents_.key * value_stride_),
      queries_(kTileRows * key_stride_),
      output_rows_(kTileRows * value_stride_),
      query_gradient_(kTileRows * key_stride_),
      score_gradient_(kTileRows * score_stride_) {
  if (in_.dropout_rate > 0) dropped_.emplace(kTileRows * score_stride_);
}

template <std::floating_point T>
void Backward<T>::run() {
  const std::int64_t group = extents_.heads / extents_.kv_heads;
  for (std::int64_t example = 0; example < extents_.batch; ++example) {
    for (std::int64_t kv_head = 0; kv_head < extents_.kv_heads; ++kv_head) {
      pack_keys(example, kv_head);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (std::int64_t first = 0; first < extents_.query; first += kTileRows)
          walk(tile_at(in_, example, head, first));
      unpack_keys(example, kv_head);
    }
  }
}

template <std::floating_point T>
void Backward<T>::pack_keys(std::int64_t example, std::int64_t kv_head) {
  const T* kept = memory_.kept == nullptr
                      ? nullptr
                      : memory_.kept + (example * extents_.kv_heads + kv_head) * extents_.key;
  pack(row_of(in_.key, example, kv_head, extents_.head_dim, 0), in_.key.row_stride, extents_.key,
       extents_.head_dim, static_cast<T>(in_.scale), kept, keys_.data());
  pack_transposed(row_of(in_.value, example, kv_head, extents_.value_dim, 0), in_.value.row_stride,
                  extents_.key, extents_.value_dim, T(1), kept, values_.data(), transpose_stride_);
  std::fill_n(key_gradient_.data(), extents_.key * key_stride_, T(0));
  std::fill_n(value_gradient_.data(), extents_.key * value_stride_, T(0));
}

template <std::floating_point T>
void Backward<T>::unpack_keys(std::int64_t example, std::int64_t kv_head) {
  if (out_.key.rows.data != nullptr) {
    unpack(key_gradient_.data(), key_stride_, extents_.key, extents_.head_dim,
           row_of(out_.key.rows, example, kv_head, extents_.head_dim, 0), out_.key.rows.row_stride,
           out_.key.accumulate);
  }
  if (out_.value.rows.data != nullptr) {
    unpack(value_gradient_.data(), value_stride_, extents_.key, extents_.value_dim,
           row_of(out_.value.rows, example, kv_head, extents_.value_dim, 0),
           out_.value.rows.row_stride, out_.value.accumulate);
  }
}

template <std::floating_point T>
void Backward<T>::walk(const Tile& tile) {
  const T* p = memory_.probabilities + offset_of<T>(tile, extents_);
  pack<T>(row_of(output_gradient_, tile.example, tile.head, extents_.value_dim, tile.first),
          output_gradient_.row_stride, tile.rows, extents_.value_dim, T(1), nullptr,
          output_rows_.data());
  // G = dO V^T
  multiply_panels<T>(tile.rows, tile.columns, extents_.value_dim,
                     {output_rows_.data(), value_stride_, 1}, values_.data() + tile.origin,
                     transpose_stride_, score_gradient_.data(), score_stride_, false);
  score_gradient(tile, p);
  // dV += D^T dO
  const T* d = dropped_ ? dropped_->data() : p;
  if (out_.value.rows.data != nullptr) {
    multiply_panels<T>(tile.keys(), value_stride_, tile.rows,
                       {d + (tile.begin - tile.origin), 1, score_stride_}, output_rows_.data(),
                       value_stride_, value_gradient_.data() + tile.begin * value_stride_,
                       value_stride_, true);
  }
  if (!wants_scores_) return;
  add_bias_gradient(in_, tile, score_gradient_.data(), score_stride_, out_);
  if (out_.query.rows.data != nullptr) write_query_gradient(tile);
  if (out_.key.rows.data != nullptr) add_key_gradient(tile);
}

// D = dropout(P), and G becomes dS_ij = (D_ij G_ij - P_ij sum_k D_ik G_ik) cap'_ij. Selected by P =
// 0, where G may be anything.
template <std::floating_point T>
void Backward<T>::score_gradient(const Tile& tile, const T* p) {
  const Batch<T> zero(T(0));
  const Batch<T> factor(dropout_factor_);
  const Batch<T> inverse_cap(in_.softcap > 0 ? static_cast<T>(1 / in_.softcap) : T(0));
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const T* row_p = p + r * score_stride_;
    T* row_g = score_gradient_.data() + r * score_stride_;
    T* row_d = dropped_ ? dropped_->data() + r * score_stride_ : nullptr;
    Batch<T> sums = zero;
    for (std::int64_t j = 0; j < tile.columns; j += kLanes<T>) {
      const Batch<T> weight = Batch<T>::load_unaligned(row_p + j);
      const Batch<T> d = xsimd::select(weight < zero, zero, weight) * factor;
      const Batch<T> dg = xsimd::select(d == zero, zero, d * Batch<T>::load_unaligned(row_g + j));
      sums += dg;
      dg.store_unaligned(row_g + j);
      if (row_d != nullptr) d.store_unaligned(row_d + j);
    }
    const Batch<T> sum(lane_sum(sums));
    for (std::int64_t j = 0; j < tile.columns; j += kLanes<T>) {
      const Batch<T> weight = xsimd::abs(Batch<T>::load_unaligned(row_p + j));
      const Batch<T> ds = Batch<T>::load_unaligned(row_g + j) - weight * sum;
      ds.store_unaligned(row_g + j);
    }
    if (memory_.capped == nullptr) continue;
    const T* row_s = memory_.capped + offset_of<T>(tile, extents_) + r * score_stride_;
    for (std::int64_t j = 0; j < tile.columns; j += kLanes<T>) {
      const Batch<T> relative = Batch<T>::load_unaligned(row_s + j) * inverse_cap;
      const Batch<T> slope = Batch<T>(T(1)) - relative * relative;
      const Batch<T> weight = Batch<T>::load_unaligned(row_p + j);
      xsimd::select(weight == zero, zero, Batch<T>::load_unaligned(row_g + j) * slope)
          .store_unaligned(row_g + j);
    }
  }
}

// dQ = dS (scale K)
template <std::floating_point T>
void Backward<T>::write_query_gradient(const Tile& tile) {
  multiply_panels<T>(tile.rows, key_stride_, tile.keys(),
                     {score_gradient_.data() + (tile.begin - tile.origin), score_stride_, 1},
                     keys_.data() + tile.begin * key_stride_, key_stride_, query_gradient_.data(),
                     key_stride_, false);
  unpack(query_gradient_.data(), key_stride_, tile.rows, extents_.head_dim,
         row_of(out_.query.rows, tile.example, tile.head, extents_.head_dim, tile.first),
         out_.query.rows.row_stride, out_.query.accumulate);
}

// dK += dS^T (scale Q)
template <std::floating_point T>
void Backward<T>::add_key_gradient(const Tile& tile) {
  pack<T>(row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first),
          in_.query.row_stride, tile.rows, extents_.head_dim, static_cast<T>(in_.scale), nullptr,
          queries_.data());
  multiply_panels<T>(tile.keys(), key_stride_, tile.rows,
                     {score_gradient_.data() + (tile.begin - tile.origin), 1, score_stride_},
                     queries_.data(), key_stride_, key_gradient_.data() + tile.begin * key_stride_,
                     key_stride_, true);
}

}  // namespace

template <std::floating_point T>
void attention_backward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
                        HeadRows<const T> output_gradient, const AttentionGradients<T>& gradients) {
  Backward<T>(operands, memory, output_gradient, gradients).run();
}

template void attention_backward<float>(const AttentionOperands<float>&,
                                        const AttentionMemory<float>&, HeadRows<const float>,
                                        const AttentionGradients<float>&);
template void attention_backward<double>(const AttentionOperands<double>&,
                                         const AttentionMemory<double>&, HeadRows<const double>,
                                         const AttentionGradients<double>&);

}  // namespace attune::kernels
