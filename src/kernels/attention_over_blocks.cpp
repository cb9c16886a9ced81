#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/attention_stages.h"
#include "kernels/attention_tile.h"
#include "kernels/key_value_blocks.h"
#include "kernels/small_gemm.h"

// The forward pass over keys and values that lie packed; symbols as in kernels/attention.h.
namespace attune::kernels {
namespace {

template <std::floating_point T>
class CachedForward final {
 public:
  CachedForward(const AttentionOperands<T>& operands, const KeyValueBlocks<const T>& blocks,
                HeadRows<T> output, std::span<HeadStatistics> statistics);
  void run();

 private:
  void score(const Tile& tile);
  void combine(const Tile& tile);
  [[nodiscard]] Mask::Range kept_run(const Tile& tile, std::int64_t from) const;

  const AttentionOperands<T>& in_;
  const AttentionExtents& extents_;
  const KeyValueBlocks<const T>& blocks_;
  HeadRows<T> output_;
  std::span<HeadStatistics> statistics_;
  // Working memory goes by the capacity: the next token's is the same.
  std::int64_t rows_;
  std::int64_t score_stride_;
  std::int64_t result_stride_;
  Scratch<T> scores_;                    // [rows_, score_stride_]
  Scratch<T> result_;                    // [rows_, result_stride_]
  std::optional<Scratch<float>> words_;  // random words of a row
  std::optional<Scratch<float>> flags_;  // bytes [rows_, score_stride_] from a tile's origin on
};

template <std::floating_point T>
CachedForward<T>::CachedForward(const AttentionOperands<T>& operands,
                                const KeyValueBlocks<const T>& blocks, HeadRows<T> output,
                                std::span<HeadStatistics> statistics)
    : in_(operands),
      extents_(operands.extents),
      blocks_(blocks),
      output_(output),
      statistics_(statistics),
      rows_(std::min(kTileRows, extents_.query)),
      score_stride_(padded<T>(blocks.capacity)),
      result_stride_(padded<T>(extents_.value_dim)),
      scores_(rows_ * score_stride_),
      result_(rows_ * result_stride_) {
  if (in_.dropout_rate > 0) words_.emplace(score_stride_ + 3);
  if (in_.mask != nullptr && !in_.mask->is_band()) flags_.emplace((rows_ * score_stride_ + 3) / 4);
}

template <std::floating_point T>
void CachedForward<T>::run() {
  for (std::int64_t example = 0; example < extents_.batch; ++example) {
    for (std::int64_t head = 0; head < extents_.heads; ++head) {
      for (std::int64_t first = 0; first < extents_.query; first += kTileRows) {
        const Tile tile = tile_at(in_, example, head, first);
        score(tile);
        normalise(in_, tile, scores_.data(), score_stride_, statistics_);
        combine(tile);
      }
    }
  }
}

// S = cap(scale Q K^T + bias), -inf where row i does not keep key j
template <std::floating_point T>
void CachedForward<T>::score(const Tile& tile) {
  T* s = scores_.data();
  const T* query = row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first);
  for (std::int64_t begin = tile.origin; begin < tile.origin + tile.columns;) {
    const std::int64_t block_end = (begin / kBlockTokens + 1) * kBlockTokens;
    const std::int64_t end = std::min(block_end, tile.origin + tile.columns);
    multiply_scaled_panels<T>(tile.rows, end - begin, extents_.head_dim,
                              {query, in_.query.row_stride, 1}, static_cast<T>(in_.scale),
                              blocks_.key(tile.example, begin, tile.kv_head * extents_.head_dim),
                              kBlockTokens, s + (begin - tile.origin), score_stride_);
    begin = end;
  }
  add_bias(in_, tile, s, score_stride_);
  cap_scores(in_.softcap, tile, s, score_stride_);
  std::uint8_t* flags = nullptr;
  if (flags_) {
    flags = reinterpret_cast<std::uint8_t*>(flags_->data());
    fill_flags(in_, tile, flags, score_stride_);
  }
  select_kept(in_, tile, flags, score_stride_, s, score_stride_);
}

// The first keys from `from` on that lie side by side and of which each is kept by some row.
template <std::floating_point T>
Mask::Range CachedForward<T>::kept_run(const Tile& tile, std::int64_t from) const {
  if (!flags_) return {from, tile.end};
  const auto* flags = reinterpret_cast<const std::uint8_t*>(flags_->data()) - tile.origin;
  const auto kept = [&](std::int64_t j) {
    for (std::int64_t r = 0; r < tile.rows; ++r)
      if (flags[r * score_stride_ + j] != 0) return true;
    return false;
  };
  Mask::Range run{from, tile.end};
  while (run.begin < tile.end && !kept(run.begin)) ++run.begin;
  run.end = run.begin;
  while (run.end < tile.end && kept(run.end)) ++run.end;
  return run;
}

// O = dropout(P) V
template <std::floating_point T>
void CachedForward<T>::combine(const Tile& tile) {
  T* p = scores_.data();
  if (words_) {
    drop_weights(in_, tile, reinterpret_cast<std::uint32_t*>(words_->data()), false, p, p,
                 score_stride_);
  }
  std::fill_n(result_.data(), tile.rows * result_stride_, T(0));
  for (Mask::Range run = kept_run(tile, tile.begin); run.begin < run.end;
       run = kept_run(tile, run.end)) {
    multiply_panels<T>(tile.rows, result_stride_, run.end - run.begin,
                       {p + (run.begin - tile.origin), score_stride_, 1},
                       blocks_.value(tile.example, run.begin, tile.kv_head * extents_.value_dim),
                       blocks_.value_width, result_.data(), result_stride_, true);
  }
  unpack(result_.data(), result_stride_, tile.rows, extents_.value_dim,
         row_of(output_, tile.example, tile.head, extents_.value_dim, tile.first),
         output_.row_stride, false);
}

}  // namespace

template <std::floating_point T>
void attention_over_blocks(const AttentionOperands<T>& operands,
                           const KeyValueBlocks<const T>& blocks, HeadRows<T> output,
                           std::span<HeadStatistics> statistics) {
  CachedForward<T>(operands, blocks, output, statistics).run();
}

template void attention_over_blocks<float>(const AttentionOperands<float>&,
                                           const KeyValueBlocks<const float>&, HeadRows<float>,
                                           std::span<HeadStatistics>);
template void attention_over_blocks<double>(const AttentionOperands<double>&,
                                            const KeyValueBlocks<const double>&, HeadRows<double>,
                                            std::span<HeadStatistics>);

}  // namespace attune::kernels
