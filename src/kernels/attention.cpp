#include "kernels/attention.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/attention_stages.h"
#include "kernels/attention_tile.h"
#include "kernels/small_gemm.h"

namespace attune::kernels {
namespace {

// The forward pass of one call.
template <std::floating_point T>
class Forward final {
 public:
  Forward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
          HeadRows<T> output, std::span<HeadStatistics> statistics);
  void run();

 private:
  // Keys and values of one key head, packed: K^T times the scale, and V. What no row keeps becomes
  // 0.
  void pack_keys(std::int64_t example, std::int64_t kv_head);

  // The stages. `s` is a tile's first row of scores; rows are score_stride_ apart.
  void score(const Tile& tile, T* s);
  void combine(const Tile& tile, T* s);

  const AttentionOperands<T>& in_;
  const AttentionExtents& extents_;
  const AttentionMemory<T>& memory_;
  HeadRows<T> output_;
  std::span<HeadStatistics> statistics_;
  std::int64_t group_;  // query heads that share a key head
  bool is_band_;
  std::int64_t score_stride_;
  std::int64_t keys_stride_;
  std::int64_t values_stride_;
  Scratch<T> keys_;    // [head_dim, keys_stride_]
  Scratch<T> values_;  // [key, values_stride_]
  Scratch<T> scores_;  // [kTileRows, score_stride_]
  Scratch<T> result_;  // [kTileRows, values_stride_]
  std::optional<Scratch<T>> dropped_;
  std::optional<Scratch<float>> words_;  // random words of a row
  std::optional<Scratch<float>> flags_;  // bytes [kTileRows, score_stride_], or of a row
  std::optional<Scratch<T>> kept_;       // [key]
};

template <std::floating_point T>
Forward<T>::Forward(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
                    HeadRows<T> output, std::span<HeadStatistics> statistics)
    : in_(operands),
      extents_(operands.extents),
      memory_(memory),
      output_(output),
      statistics_(statistics),
      group_(extents_.heads / extents_.kv_heads),
      is_band_(operands.mask == nullptr || operands.mask->is_band()),
      score_stride_(padded<T>(extents_.key)),
      keys_stride_(spread<T>(extents_.key)),
      values_stride_(padded<T>(extents_.value_dim)),
      keys_(extents_.head_dim * keys_stride_),
      values_(extents_.key * values_stride_),
      scores_(kTileRows * score_stride_),
      result_(kTileRows * values_stride_) {
  if (in_.dropout_rate > 0) {
    dropped_.emplace(kTileRows * score_stride_);
    words_.emplace(score_stride_ + 3);
  }
  if (!is_band_) {
    flags_.emplace((kTileRows * score_stride_ + 3) / 4);
    kept_.emplace(extents_.key);
  }
}

template <std::floating_point T>
void Forward<T>::run() {
  for (std::int64_t example = 0; example < extents_.batch; ++example) {
    for (std::int64_t kv_head = 0; kv_head < extents_.kv_heads; ++kv_head) {
      pack_keys(example, kv_head);
      for (std::int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
        for (std::int64_t first = 0; first < extents_.query; first += kTileRows) {
          const Tile tile = tile_at(in_, example, head, first);
          T* s = memory_.probabilities == nullptr
                     ? scores_.data()
                     : memory_.probabilities + offset_of<T>(tile, extents_);
          score(tile, s);
          normalise(in_, tile, s, score_stride_, statistics_);
          combine(tile, s);
        }
      }
    }
  }
}

template <std::floating_point T>
void Forward<T>::pack_keys(std::int64_t example, std::int64_t kv_head) {
  T* kept = nullptr;
  if (!is_band_) {
    kept = memory_.kept == nullptr
               ? kept_->data()
               : memory_.kept + (example * extents_.kv_heads + kv_head) * extents_.key;
    find_kept_keys(in_, example, kv_head, reinterpret_cast<std::uint8_t*>(flags_->data()), kept);
  }
  pack_transposed(row_of(in_.key, example, kv_head, extents_.head_dim, 0), in_.key.row_stride,
                  extents_.key, extents_.head_dim, static_cast<T>(in_.scale), kept, keys_.data(),
                  keys_stride_);
  pack(row_of(in_.value, example, kv_head, extents_.value_dim, 0), in_.value.row_stride,
       extents_.key, extents_.value_dim, T(1), kept, values_.data());
}

// S = cap(scale Q K^T + bias), -inf where row i does not keep key j
template <std::floating_point T>
void Forward<T>::score(const Tile& tile, T* s) {
  const T* query = row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first);
  multiply_panels<T>(tile.rows, tile.columns, extents_.head_dim, {query, in_.query.row_stride, 1},
                     keys_.data() + tile.origin, keys_stride_, s, score_stride_, false);
  add_bias(in_, tile, s, score_stride_);
  cap_scores(in_.softcap, tile, s, score_stride_);
  if (memory_.capped != nullptr) {
    T* capped = memory_.capped + offset_of<T>(tile, extents_);
    for (std::int64_t r = 0; r < tile.rows; ++r)
      std::copy_n(s + r * score_stride_, tile.columns, capped + r * score_stride_);
  }
  std::uint8_t* flags = nullptr;
  if (!is_band_) {
    flags = reinterpret_cast<std::uint8_t*>(flags_->data());
    fill_flags(in_, tile, flags, score_stride_);
  }
  select_kept(in_, tile, flags, score_stride_, s, score_stride_);
}

// O = dropout(P) V
template <std::floating_point T>
void Forward<T>::combine(const Tile& tile, T* s) {
  const T* weights = s;
  if (in_.dropout_rate > 0) {
    drop_weights(in_, tile, reinterpret_cast<std::uint32_t*>(words_->data()), true, s,
                 dropped_->data(), score_stride_);
    weights = dropped_->data();
  }
  multiply_panels<T>(tile.rows, values_stride_, tile.keys(),
                     {weights + (tile.begin - tile.origin), score_stride_, 1},
                     values_.data() + tile.begin * values_stride_, values_stride_, result_.data(),
                     values_stride_, false);
  unpack(result_.data(), values_stride_, tile.rows, extents_.value_dim,
         row_of(output_, tile.example, tile.head, extents_.value_dim, tile.first),
         output_.row_stride, false);
}

}  // namespace

template <std::floating_point T>
std::int64_t padded_keys(std::int64_t keys) {
  return padded<T>(keys);
}

template <std::floating_point T>
void attention(const AttentionOperands<T>& operands, const AttentionMemory<T>& memory,
               HeadRows<T> output, std::span<HeadStatistics> statistics) {
  Forward<T>(operands, memory, output, statistics).run();
}

template std::int64_t padded_keys<float>(std::int64_t);
template std::int64_t padded_keys<double>(std::int64_t);
template void attention<float>(const AttentionOperands<float>&, const AttentionMemory<float>&,
                               HeadRows<float>, std::span<HeadStatistics>);
template void attention<double>(const AttentionOperands<double>&, const AttentionMemory<double>&,
                                HeadRows<double>, std::span<HeadStatistics>);

}  // namespace attune::kernels
