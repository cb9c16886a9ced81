#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "kernels/attention.h"
#include "kernels/attention_blocks.h"
#include "kernels/attention_softmax.h"
#include "kernels/attention_stages.h"
#include "kernels/small_gemm.h"

// The forward pass of the tiled form; symbols as in kernels/attention.h.
namespace attune::kernels {
namespace {

// Query rows that go over a block of keys together, while it is in the cache.
constexpr std::int64_t kBlockRows = 4 * kTileRows;

template <std::floating_point T>
class TiledForward final {
 public:
  TiledForward(const AttentionOperands<T>& operands, HeadRows<T> output, T* partition,
               std::span<HeadStatistics> statistics);
  void run();

 private:
  void pack_keys(std::int64_t example, std::int64_t kv_head);
  void walk(std::int64_t example, std::int64_t head, std::int64_t first);
  void score(const Tile& tile);
  void normalise(const Tile& tile);
  void raise_maximum(std::int64_t row, T largest);
  void combine(const Tile& tile);
  void finish(const Tile& tile);

  const AttentionOperands<T>& in_;
  const AttentionExtents& extents_;
  HeadRows<T> output_;
  T* partition_;
  std::span<HeadStatistics> statistics_;
  bool is_band_;
  std::int64_t values_stride_;
  Scratch<T> keys_;    // blocks of [head_dim, kBlockStride]: K^T times the scale
  Scratch<T> values_;  // [key, values_stride_]
  Scratch<T> scores_;  // [kTileRows, kBlockStride]
  Scratch<T> result_;  // [kBlockRows, values_stride_]: O, relative to each row's maximum
  std::optional<Scratch<T>> dropped_;
  std::optional<Scratch<float>> words_;  // random words of a row
  std::optional<Scratch<float>> flags_;  // bytes [kTileRows, kBlockKeys], or of a row
  std::optional<Scratch<T>> kept_;       // [key]
  // Of the rows that are walked together: m is .largest, Z .partition.
  RowSums<double> sums_[kBlockRows];
  std::int64_t block_first_ = 0;  // the first of these rows
};

std::int64_t blocks_of(std::int64_t keys) { return (keys + kBlockKeys - 1) / kBlockKeys; }

template <std::floating_point T>
TiledForward<T>::TiledForward(const AttentionOperands<T>& operands, HeadRows<T> output,
                              T* partition, std::span<HeadStatistics> statistics)
    : in_(operands),
      extents_(operands.extents),
      output_(output),
      partition_(partition),
      statistics_(statistics),
      is_band_(operands.mask == nullptr || operands.mask->is_band()),
      values_stride_(padded<T>(extents_.value_dim)),
      keys_(blocks_of(extents_.key) * extents_.head_dim * kBlockStride<T>),
      values_(extents_.key * values_stride_),
      scores_(kTileRows * kBlockStride<T>),
      result_(kBlockRows * values_stride_) {
  if (in_.dropout_rate > 0) {
    dropped_.emplace(kTileRows * kBlockStride<T>);
    words_.emplace(kBlockKeys + 4);
  }
  if (!is_band_) {
    flags_.emplace((std::max(kTileRows * kBlockKeys, extents_.key) + 3) / 4);
    kept_.emplace(extents_.key);
  }
}

template <std::floating_point T>
void TiledForward<T>::run() {
  const std::int64_t group = extents_.heads / extents_.kv_heads;
  for (std::int64_t example = 0; example < extents_.batch; ++example) {
    for (std::int64_t kv_head = 0; kv_head < extents_.kv_heads; ++kv_head) {
      pack_keys(example, kv_head);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (std::int64_t first = 0; first < extents_.query; first += kBlockRows)
          walk(example, head, first);
    }
  }
}

template <std::floating_point T>
void TiledForward<T>::pack_keys(std::int64_t example, std::int64_t kv_head) {
  const T* kept = nullptr;
  if (!is_band_) {
    find_kept_keys(in_, example, kv_head, reinterpret_cast<std::uint8_t*>(flags_->data()),
                   kept_->data());
    kept = kept_->data();
  }
  for (std::int64_t begin = 0; begin < extents_.key; begin += kBlockKeys) {
    pack_transposed(row_of(in_.key, example, kv_head, extents_.head_dim, begin), in_.key.row_stride,
                    std::min(kBlockKeys, extents_.key - begin), extents_.head_dim,
                    static_cast<T>(in_.scale), kept == nullptr ? nullptr : kept + begin,
                    keys_.data() + begin / kBlockKeys * extents_.head_dim * kBlockStride<T>,
                    kBlockStride<T>);
  }
  pack(row_of(in_.value, example, kv_head, extents_.value_dim, 0), in_.value.row_stride,
       extents_.key, extents_.value_dim, T(1), kept, values_.data());
}

// All keys, block by block, for the query rows [first, first + kBlockRows).
template <std::floating_point T>
void TiledForward<T>::walk(std::int64_t example, std::int64_t head, std::int64_t first) {
  const std::int64_t last = std::min(first + kBlockRows, extents_.query) - 1;
  block_first_ = first;
  std::fill_n(result_.data(), kBlockRows * values_stride_, T(0));
  RowSums<double> nothing;
  nothing.largest = -std::numeric_limits<double>::infinity();
  std::fill_n(sums_, kBlockRows, nothing);

  const Mask::Range keys = keys_of_rows(in_.mask, extents_, first, last);
  for (std::int64_t begin = keys.begin / kBlockKeys * kBlockKeys; begin < keys.end;
       begin += kBlockKeys) {
    for (std::int64_t row = first; row <= last; row += kTileRows) {
      const Tile tile = restricted<T>(tile_at(in_, example, head, row), begin);
      if (tile.keys() <= 0) continue;
      score(tile);
      normalise(tile);
      combine(tile);
    }
  }
  for (std::int64_t row = first; row <= last; row += kTileRows)
    finish(tile_at(in_, example, head, row));
}

// S = cap(scale Q K^T + bias), -inf where row i does not keep key j
template <std::floating_point T>
void TiledForward<T>::score(const Tile& tile) {
  T* s = scores_.data();
  const T* query = row_of(in_.query, tile.example, tile.head, extents_.head_dim, tile.first);
  const std::int64_t block = tile.origin / kBlockKeys;
  const T* keys = keys_.data() + block * extents_.head_dim * kBlockStride<T>;
  multiply_panels<T>(tile.rows, tile.columns, extents_.head_dim, {query, in_.query.row_stride, 1},
                     keys + (tile.origin - block * kBlockKeys), kBlockStride<T>, s, kBlockStride<T>,
                     false);
  add_bias(in_, tile, s, kBlockStride<T>);
  cap_scores(in_.softcap, tile, s, kBlockStride<T>);
  std::uint8_t* flags = nullptr;
  if (!is_band_) {
    flags = reinterpret_cast<std::uint8_t*>(flags_->data());
    fill_flags(in_, tile, flags, kBlockKeys);
  }
  select_kept(in_, tile, flags, kBlockKeys, s, kBlockStride<T>);
}

// Scales what row `row` of the block has summed up to a larger maximum.
template <std::floating_point T>
void TiledForward<T>::raise_maximum(std::int64_t row, T largest) {
  RowSums<double>& sums = sums_[row];
  if (!(static_cast<double>(largest) > sums.largest)) return;
  const double d = sums.largest - static_cast<double>(largest);  // -inf for the first block
  sums.largest = static_cast<double>(largest);
  if (sums.partition == 0) return;
  const double a = std::exp(d);
  sums.weighted = a * (sums.weighted + d * sums.partition);
  sums.partition *= a;
  sums.distance *= a;
  sums.shifted_square += d * (2 * sums.shifted + sums.keys * d);
  sums.shifted += sums.keys * d;
  sums.lowest += d;
  T* o = result_.data() + row * values_stride_;
  const T factor = static_cast<T>(a);
#pragma omp simd
  for (std::int64_t c = 0; c < values_stride_; ++c) o[c] *= factor;
}

// S becomes e^(S - m); the sums of the rows grow by it.
template <std::floating_point T>
void TiledForward<T>::normalise(const Tile& tile) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    T* s = scores_.data() + r * kBlockStride<T>;
    const T largest = row_max(s, tile.columns);
    if (largest == -std::numeric_limits<T>::infinity()) {
      std::fill_n(s, tile.columns, T(0));
      continue;
    }
    const std::int64_t row = tile.first + r - block_first_;
    raise_maximum(row, largest);
    RowSums<double>& sums = sums_[row];
    const T m = static_cast<T>(sums.largest);
    if (statistics_.empty()) {
      sums.partition += static_cast<double>(exponential_row(s, tile.columns, m));
      continue;
    }
    const std::int64_t position = tile.first + r + extents_.key - extents_.query - tile.origin;
    const RowSums<double> block(exponential_row_sums(s, tile.columns, m, position));
    sums.keys += block.keys;
    sums.partition += block.partition;
    sums.weighted += block.weighted;
    sums.shifted += block.shifted;
    sums.shifted_square += block.shifted_square;
    sums.lowest = std::min(sums.lowest, block.lowest);
    sums.distance += block.distance;
  }
}

// O += dropout(e^(S - m)) V
template <std::floating_point T>
void TiledForward<T>::combine(const Tile& tile) {
  T* weights = scores_.data();
  if (dropped_) {
    drop_weights(in_, tile, reinterpret_cast<std::uint32_t*>(words_->data()), false, weights,
                 dropped_->data(), kBlockStride<T>);
    weights = dropped_->data();
  }
  multiply_panels<T>(tile.rows, values_stride_, tile.keys(),
                     {weights + (tile.begin - tile.origin), kBlockStride<T>, 1},
                     values_.data() + tile.begin * values_stride_, values_stride_,
                     result_.data() + (tile.first - block_first_) * values_stride_, values_stride_,
                     true);
}

// O /= Z
template <std::floating_point T>
void TiledForward<T>::finish(const Tile& tile) {
  const std::int64_t begin = tile.first - block_first_;
  T* o = result_.data() + begin * values_stride_;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const RowSums<double>& sums = sums_[begin + r];
    const T factor = sums.partition == 0 ? T(0) : static_cast<T>(1 / sums.partition);
    for (std::int64_t c = 0; c < values_stride_; ++c) o[r * values_stride_ + c] *= factor;
    if (partition_ == nullptr) continue;
    const std::int64_t row = (tile.example * extents_.heads + tile.head) * extents_.query;
    T* kept = partition_ + 2 * (row + tile.first + r);
    const bool is_empty = sums.partition == 0;
    kept[0] = is_empty ? std::numeric_limits<T>::infinity() : static_cast<T>(sums.largest);
    kept[1] = is_empty ? T(0) : static_cast<T>(std::log(sums.partition));
  }
  unpack(o, values_stride_, tile.rows, extents_.value_dim,
         row_of(output_, tile.example, tile.head, extents_.value_dim, tile.first),
         output_.row_stride, false);
  if (statistics_.empty()) return;
  RowSums<T> rows[kTileRows];
  for (std::int64_t r = 0; r < tile.rows; ++r) rows[r] = RowSums<T>(sums_[begin + r]);
  add_rows<T>({rows, static_cast<std::size_t>(tile.rows)},
              statistics_[static_cast<std::size_t>(tile.head)]);
}

}  // namespace

template <std::floating_point T>
void attention_tiled(const AttentionOperands<T>& operands, HeadRows<T> output, T* partition,
                     std::span<HeadStatistics> statistics) {
  TiledForward<T>(operands, output, partition, statistics).run();
}

template void attention_tiled<float>(const AttentionOperands<float>&, HeadRows<float>, float*,
                                     std::span<HeadStatistics>);
template void attention_tiled<double>(const AttentionOperands<double>&, HeadRows<double>, double*,
                                      std::span<HeadStatistics>);

}  // namespace attune::kernels
