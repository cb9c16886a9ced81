#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/attention.h"
#include "kernels/attention_blocks.h"
#include "kernels/attention_softmax.h"
#include "kernels/attention_stages.h"
#include "kernels/simd_batch.h"
#include "kernels/small_gemm.h"

// The backward pass of the tiled form; symbols as in kernels/attention.h. Blocks of keys outside,
// tiles of query rows inside: the gradients of a block's keys and values stay in the cache, those
// of queries add up over blocks.
namespace attune::kernels {
namespace {

template <std::floating_point T>
class TiledBackward final {
 public:
  TiledBackward(const AttentionOperands<T>& operands, HeadRows<const T> output, const T* partition,
                HeadRows<const T> output_gradient, const AttentionGradients<T>& gradients);
  void run();

 private:
  void project_gradient(std::int64_t example, std::int64_t head);
  void pack_block(std::int64_t example, std::int64_t kv_head);
  void unpack_block(std::int64_t example, std::int64_t kv_head);
  void walk(const Tile& tile);
  void recompute(const Tile& tile);
  void score_gradient(const Tile& tile);
  void add_key_gradient(const Tile& tile);
  void unpack_queries(std::int64_t example, std::int64_t head);

  [[nodiscard]] T* query_gradient(const Tile& tile) const {
    return query_gradient_.data() +
           ((tile.head - tile.kv_head * group_) * extents_.query + tile.first) * key_stride_;
  }
  [[nodiscard]] std::int64_t row_index(std::int64_t example, std::int64_t head,
                                       std::int64_t row) const {
    return (example * extents_.heads + head) * extents_.query + row;
  }

  const AttentionOperands<T>& in_;
  const AttentionExtents& extents_;
  HeadRows<const T> output_;
  const T* partition_;
  HeadRows<const T> output_gradient_;
  const AttentionGradients<T>& out_;
  bool is_band_;
  std::int64_t group_;
  std::int64_t key_stride_;    // of rows of head_dim
  std::int64_t value_stride_;  // of rows of value_dim
  std::int64_t block_begin_ = 0;
  std::int64_t block_keys_ = 0;
  Scratch<T> keys_;                      // [kBlockKeys, key_stride_]: scale K
  Scratch<T> keys_transposed_;           // [head_dim, kBlockStride]
  Scratch<T> values_;                    // [value_dim, kBlockStride]: V^T
  Scratch<T> key_gradient_;              // [kBlockKeys, key_stride_]
  Scratch<T> value_gradient_;            // [kBlockKeys, value_stride_]
  Scratch<T> query_gradient_;            // [group, query, key_stride_]
  Scratch<T> projected_;                 // [group, query]: dO . O
  Scratch<T> queries_;                   // [kTileRows, key_stride_]: scale Q
  Scratch<T> output_rows_;               // [kTileRows, value_stride_]: dO
  Scratch<T> weights_;                   // [kTileRows, kBlockStride]: S, then P
  Scratch<T> score_gradient_;            // [kTileRows, kBlockStride]: G, then dS
  std::optional<Scratch<T>> dropped_;    // [kTileRows, kBlockStride]: D
  std::optional<Scratch<float>> words_;  // random words of a row
  std::optional<Scratch<T>> capped_;     // [kTileRows, kBlockStride]: S after the softcap
  std::optional<Scratch<float>> flags_;  // bytes [kTileRows, kBlockKeys], or of a row
  std::optional<Scratch<T>> kept_;       // [key]
};

template <std::floating_point T>
TiledBackward<T>::TiledBackward(const AttentionOperands<T>& operands, HeadRows<const T> output,
                                const T* partition, HeadRows<const T> output_gradient,
                                const AttentionGradients<T>& gradients)
    : in_(operands),
      extents_(operands.extents),
      output_(output),
      partition_(partition),
      output_gradient_(output_gradient),
      out_(gradients),
      is_band_(operands.mask == nullptr || operands.mask->is_band()),
      group_(extents_.heads / extents_.kv_heads),
      key_stride_(padded<T>(extents_.head_dim)),
      value_stride_(padded<T>(extents_.value_dim)),
      keys_(kBlockKeys * key_stride_),
      keys_transposed_(extents_.head_dim * kBlockStride<T>),
      values_(extents_.value_dim * kBlockStride<T>),
      key_gradient_(kBlockKeys * key_stride_),
      value_gradient_(kBlockKeys * value_stride_),
      query_gradient_(group_ * extents_.query * key_stride_),
      projected_(group_ * extents_.query),
      queries_(kTileRows * key_stride_),
      output_rows_(kTileRows * value_stride_),
      weights_(kTileRows * kBlockStride<T>),
      score_gradient_(kTileRows * kBlockStride<T>) {
  if (in_.dropout_rate > 0) {
    dropped_.emplace(kTileRows * kBlockStride<T>);
    words_.emplace(kBlockKeys + 4);
  }
  if (in_.softcap > 0) capped_.emplace(kTileRows * kBlockStride<T>);
  if (!is_band_) {
    flags_.emplace((std::max(kTileRows * kBlockKeys, extents_.key) + 3) / 4);
    kept_.emplace(extents_.key);
  }
}

template <std::floating_point T>
void TiledBackward<T>::run() {
  for (std::int64_t example = 0; example < extents_.batch; ++example) {
    for (std::int64_t kv_head = 0; kv_head < extents_.kv_heads; ++kv_head) {
      const std::int64_t first_head = kv_head * group_;
      std::fill_n(query_gradient_.data(), group_ * extents_.query * key_stride_, T(0));
      for (std::int64_t head = first_head; head < first_head + group_; ++head)
        project_gradient(example, head);
      if (!is_band_) {
        find_kept_keys(in_, example, kv_head, reinterpret_cast<std::uint8_t*>(flags_->data()),
                       kept_->data());
      }
      for (block_begin_ = 0; block_begin_ < extents_.key; block_begin_ += kBlockKeys) {
        block_keys_ = std::min(kBlockKeys, extents_.key - block_begin_);
        pack_block(example, kv_head);
        for (std::int64_t head = first_head; head < first_head + group_; ++head) {
          for (std::int64_t first = 0; first < extents_.query; first += kTileRows) {
            const Tile tile = restricted<T>(tile_at(in_, example, head, first), block_begin_);
            if (tile.keys() > 0) walk(tile);
          }
        }
        unpack_block(example, kv_head);
      }
      for (std::int64_t head = first_head; head < first_head + group_; ++head)
        unpack_queries(example, head);
    }
  }
}

// dO . O of every row
template <std::floating_point T>
void TiledBackward<T>::project_gradient(std::int64_t example, std::int64_t head) {
  T* projected = projected_.data() + head % group_ * extents_.query;
  for (std::int64_t i = 0; i < extents_.query; ++i) {
    const T* o = row_of(output_, example, head, extents_.value_dim, i);
    const T* d = row_of(output_gradient_, example, head, extents_.value_dim, i);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < extents_.value_dim; ++c) sum += o[c] * d[c];
    projected[i] = sum;
  }
}

template <std::floating_point T>
void TiledBackward<T>::pack_block(std::int64_t example, std::int64_t kv_head) {
  const T* kept = is_band_ ? nullptr : kept_->data() + block_begin_;
  const T* key = row_of(in_.key, example, kv_head, extents_.head_dim, block_begin_);
  const T scale = static_cast<T>(in_.scale);
  pack(key, in_.key.row_stride, block_keys_, extents_.head_dim, scale, kept, keys_.data());
  pack_transposed(key, in_.key.row_stride, block_keys_, extents_.head_dim, scale, kept,
                  keys_transposed_.data(), kBlockStride<T>);
  pack_transposed(row_of(in_.value, example, kv_head, extents_.value_dim, block_begin_),
                  in_.value.row_stride, block_keys_, extents_.value_dim, T(1), kept, values_.data(),
                  kBlockStride<T>);
  std::fill_n(key_gradient_.data(), block_keys_ * key_stride_, T(0));
  std::fill_n(value_gradient_.data(), block_keys_ * value_stride_, T(0));
}

template <std::floating_point T>
void TiledBackward<T>::unpack_block(std::int64_t example, std::int64_t kv_head) {
  if (out_.key.rows.data != nullptr) {
    unpack(key_gradient_.data(), key_stride_, block_keys_, extents_.head_dim,
           row_of(out_.key.rows, example, kv_head, extents_.head_dim, block_begin_),
           out_.key.rows.row_stride, out_.key.accumulate);
  }
  if (out_.value.rows.data != nullptr) {
    unpack(value_gradient_.data(), value_stride_, block_keys_, extents_.value_dim,
           row_of(out_.value.rows, example, kv_head, extents_.value_dim, block_begin_),
           out_.value.rows.row_stride, out_.value.accumulate);
  }
}

template <std::floating_point T>
void TiledBackward<T>::unpack_queries(std::int64_t example, std::int64_t head) {
  if (out_.query.rows.data == nullptr) return;
  unpack(query_gradient_.data() + head % group_ * extents_.query * key_stride_, key_stride_,
         extents_.query, extents_.head_dim,
         row_of(out_.query.rows, example, head, extents_.head_dim, 0), out_.query.rows.row_stride,
         out_.query.accumulate);
}

template <std::floating_point T>
void TiledBackward<T>::walk(const Tile& tile) {
  const std::int64_t offset = tile.begin - tile.origin;
  recompute(tile);
  pack<T>(row_of(output_gradient_, tile.example, tile.head, extents_.value_dim, tile.first),
          output_gradient_.row_stride, tile.rows, extents_.value_dim, T(1), nullptr,
          output_rows_.data());
  // G = dO V^T
  multiply_panels<T>(tile.rows, tile.columns, extents_.value_dim,
                     {output_rows_.data(), value_stride_, 1},
                     values_.data() + (tile.origin - block_begin_), kBlockStride<T>,
                     score_gradient_.data(), kBlockStride<T>, false);
  score_gradient(tile);
  if (out_.value.rows.data != nullptr) {
    // dV += D^T dO
    const T* d = dropped_ ? dropped_->data() : weights_.data();
    multiply_panels<T>(tile.keys(), value_stride_, tile.rows, {d + offset, 1, kBlockStride<T>},
                       output_rows_.data(), value_stride_,
                       value_gradient_.data() + (tile.begin - block_begin_) * value_stride_,
                       value_stride_, true);
  }
  add_bias_gradient(in_, tile, score_gradient_.data(), kBlockStride<T>, out_);
  if (out_.query.rows.data != nullptr) {
    // dQ += dS (scale K)
    multiply_panels<T>(tile.rows, key_stride_, tile.keys(),
                       {score_gradient_.data() + offset, kBlockStride<T>, 1},
                       keys_.data() + (tile.begin - block_begin_) * key_stride_, key_stride_,
                       query_gradient(tile), key_stride_, true);
  }
  if (out_.key.rows.data != nullptr) add_key_gradient(tile);
}

// S again, then P_ij = e^(S_ij - m_i - ln Z_i), and D = dropout(P)
template <std::floating_point T>
void TiledBackward<T>::recompute(const Tile& tile) {
  T* s = weights_.data();
  const T* query = row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first);
  multiply_panels<T>(tile.rows, tile.columns, extents_.head_dim, {query, in_.query.row_stride, 1},
                     keys_transposed_.data() + (tile.origin - block_begin_), kBlockStride<T>, s,
                     kBlockStride<T>, false);
  add_bias(in_, tile, s, kBlockStride<T>);
  cap_scores(in_.softcap, tile, s, kBlockStride<T>);
  if (capped_) std::copy_n(s, tile.rows * kBlockStride<T>, capped_->data());
  std::uint8_t* flags = nullptr;
  if (!is_band_) {
    flags = reinterpret_cast<std::uint8_t*>(flags_->data());
    fill_flags(in_, tile, flags, kBlockKeys);
  }
  select_kept(in_, tile, flags, kBlockKeys, s, kBlockStride<T>);
  const T* partition = partition_ + 2 * row_index(tile.example, tile.head, tile.first);
  for (std::int64_t r = 0; r < tile.rows; ++r)
    weights_row(s + r * kBlockStride<T>, tile.columns, partition[2 * r], partition[2 * r + 1]);
  if (dropped_) {
    drop_weights(in_, tile, reinterpret_cast<std::uint32_t*>(words_->data()), false, s,
                 dropped_->data(), kBlockStride<T>);
  }
}

// G becomes dS_ij = (D_ij G_ij - P_ij (dO_i . O_i)) cap'_ij. Selected by D = 0 and P = 0, where G
// may be anything.
template <std::floating_point T>
void TiledBackward<T>::score_gradient(const Tile& tile) {
  const Batch<T> zero(T(0));
  const Batch<T> inverse_cap(in_.softcap > 0 ? static_cast<T>(1 / in_.softcap) : T(0));
  const T* projected =
      projected_.data() + (tile.head - tile.kv_head * group_) * extents_.query + tile.first;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const T* row_p = weights_.data() + r * kBlockStride<T>;
    const T* row_d = dropped_ ? dropped_->data() + r * kBlockStride<T> : row_p;
    const T* row_s = capped_ ? capped_->data() + r * kBlockStride<T> : nullptr;
    T* row_g = score_gradient_.data() + r * kBlockStride<T>;
    const Batch<T> sum(projected[r]);
    for (std::int64_t j = 0; j < tile.columns; j += kLanes<T>) {
      const Batch<T> p = Batch<T>::load_unaligned(row_p + j);
      const Batch<T> d = Batch<T>::load_unaligned(row_d + j);
      const Batch<T> dg = xsimd::select(d == zero, zero, d * Batch<T>::load_unaligned(row_g + j));
      Batch<T> ds = dg - p * sum;
      if (row_s != nullptr) {
        const Batch<T> relative = Batch<T>::load_unaligned(row_s + j) * inverse_cap;
        ds = xsimd::select(p == zero, zero, ds * (Batch<T>(T(1)) - relative * relative));
      }
      ds.store_unaligned(row_g + j);
    }
  }
}

// dK += dS^T (scale Q)
template <std::floating_point T>
void TiledBackward<T>::add_key_gradient(const Tile& tile) {
  pack<T>(row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first),
          in_.query.row_stride, tile.rows, extents_.head_dim, static_cast<T>(in_.scale), nullptr,
          queries_.data());
  multiply_panels<T>(tile.keys(), key_stride_, tile.rows,
                     {score_gradient_.data() + (tile.begin - tile.origin), 1, kBlockStride<T>},
                     queries_.data(), key_stride_,
                     key_gradient_.data() + (tile.begin - block_begin_) * key_stride_, key_stride_,
                     true);
}

}  // namespace

template <std::floating_point T>
void attention_tiled_backward(const AttentionOperands<T>& operands, HeadRows<const T> output,
                              const T* partition, HeadRows<const T> output_gradient,
                              const AttentionGradients<T>& gradients) {
  TiledBackward<T>(operands, output, partition, output_gradient, gradients).run();
}

template void attention_tiled_backward<float>(const AttentionOperands<float>&,
                                              HeadRows<const float>, const float*,
                                              HeadRows<const float>,
                                              const AttentionGradients<float>&);
template void attention_tiled_backward<double>(const AttentionOperands<double>&,
                                               HeadRows<const double>, const double*,
                                               HeadRows<const double>,
                                               const AttentionGradients<double>&);

}  // namespace attune::kernels
