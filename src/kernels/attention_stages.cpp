#include "kernels/attention_stages.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/attention_softmax.h"
#include "kernels/simd_math.h"

namespace attune::kernels {

namespace {

// Calls visit(s, table, count) for stretches of a tile's scores, from key `begin` on, and the part
// of a table [heads, distances] that belongs to them: neighbours here are neighbours there. With
// consecutive positions a row is one stretch.
template <class S, class Table, std::floating_point T, class Visit>
void visit_distances(const AttentionOperands<T>& operands, const Tile& tile, S* s,
                     std::int64_t stride, Table* table, Visit visit) {
  const DistanceTable<T>& distance = operands.distance;
  const std::int32_t* query = distance.query + tile.example * distance.query_stride;
  const std::int32_t* key = distance.key + tile.example * distance.key_stride;
  table += tile.head * distance.distances - distance.first;
  for (std::int64_t r = 0; r < tile.rows; ++r, s += stride) {
    const std::int64_t position = query[tile.first + r];
    for (std::int64_t begin = tile.begin, end = begin; begin < tile.end; begin = end) {
      do ++end;
      while (end < tile.end && key[end] == key[end - 1] + 1);
      visit(s + (begin - tile.origin), table + (key[begin] - position), end - begin);
    }
  }
}

// Rows of the tile and of the bias array that belong together, as above.
template <class S, class Bias, std::floating_point T, class Visit>
void visit_bias(const AttentionOperands<T>& operands, const Tile& tile, S* s, std::int64_t stride,
                Bias* bias, Visit visit) {
  bias += bias_offset(operands, tile) + tile.begin;
  s += tile.begin - tile.origin;
  for (std::int64_t r = 0; r < tile.rows; ++r, bias += operands.extents.key, s += stride)
    visit(s, bias, tile.keys());
}

constexpr auto kAddTo = []<class T>(const T* x, T* sum, std::int64_t count) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) sum[j] += x[j];
};

}  // namespace

template <std::floating_point T>
void add_bias(const AttentionOperands<T>& operands, const Tile& tile, T* s, std::int64_t stride) {
  const auto add = [](T* scores, const T* bias, std::int64_t count) {
    kAddTo(bias, scores, count);
  };
  if (operands.bias != nullptr) visit_bias(operands, tile, s, stride, operands.bias, add);
  if (operands.distance.table != nullptr)
    visit_distances(operands, tile, s, stride, operands.distance.table, add);
}

template <std::floating_point T>
void add_bias_gradient(const AttentionOperands<T>& operands, const Tile& tile, const T* ds,
                       std::int64_t stride, const AttentionGradients<T>& gradients) {
  if (gradients.bias != nullptr) visit_bias(operands, tile, ds, stride, gradients.bias, kAddTo);
  if (gradients.distance != nullptr)
    visit_distances(operands, tile, ds, stride, gradients.distance, kAddTo);
}

template <std::floating_point T>
void cap_scores(double softcap, const Tile& tile, T* s, std::int64_t stride) {
  if (softcap == 0) return;
  const T cap = static_cast<T>(softcap);
  for (std::int64_t r = 0; r < tile.rows; ++r, s += stride) {
    for (std::int64_t j = 0; j < tile.columns; ++j) s[j] /= cap;
    tanh_into(s, s, tile.columns);
    for (std::int64_t j = 0; j < tile.columns; ++j) s[j] *= cap;
  }
}

template <std::floating_point T>
void find_kept_keys(const AttentionOperands<T>& operands, std::int64_t example,
                    std::int64_t kv_head, std::uint8_t* flags, T* kept) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t group = extents.heads / extents.kv_heads;
  std::fill_n(kept, extents.key, T(0));
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t i = 0; i < extents.query; ++i) {
      operands.mask->fill_row(example, head, i, extents.query, extents.key,
                              {flags, static_cast<std::size_t>(extents.key)});
      for (std::int64_t j = 0; j < extents.key; ++j) kept[j] = flags[j] != 0 ? T(1) : kept[j];
    }
  }
}

template <std::floating_point T>
void fill_flags(const AttentionOperands<T>& operands, const Tile& tile, std::uint8_t* flags,
                std::int64_t stride) {
  const AttentionExtents& extents = operands.extents;
  const std::int64_t count = std::min(tile.columns, extents.key - tile.origin);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    operands.mask->fill_row(tile.example, tile.head, tile.first + r, extents.query, extents.key,
                            {flags + r * stride, static_cast<std::size_t>(count)}, tile.origin);
  }
}

template <std::floating_point T>
void select_kept(const AttentionOperands<T>& operands, const Tile& tile, const std::uint8_t* keep,
                 std::int64_t keep_stride, T* s, std::int64_t stride) {
  constexpr T kDropped = -std::numeric_limits<T>::infinity();
  const AttentionExtents& extents = operands.extents;
  for (std::int64_t r = 0; r < tile.rows; ++r, s += stride) {
    const auto [begin, end] = operands.mask == nullptr
                                  ? Mask::Range{0, extents.key}
                                  : operands.mask->band(tile.first + r, extents.query, extents.key);
    const std::int64_t first =
        std::clamp<std::int64_t>(std::max(begin, tile.begin) - tile.origin, 0, tile.columns);
    const std::int64_t last =
        std::clamp<std::int64_t>(std::min(end, tile.end) - tile.origin, first, tile.columns);
    std::fill(s, s + first, kDropped);
    std::fill(s + last, s + tile.columns, kDropped);
    if (keep == nullptr) continue;
#pragma omp simd
    for (std::int64_t j = first; j < last; ++j) s[j] = keep[j] != 0 ? s[j] : kDropped;
    keep += keep_stride;
  }
}

template <std::floating_point T>
void normalise(const AttentionOperands<T>& operands, const Tile& tile, T* s, std::int64_t stride,
               std::span<HeadStatistics> statistics) {
  if (statistics.empty()) {
    for (std::int64_t r = 0; r < tile.rows; ++r) softmax_row(s + r * stride, tile.columns);
    return;
  }
  const AttentionExtents& extents = operands.extents;
  RowSums<T> sums[kTileRows];
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::int64_t position = tile.first + r + extents.key - extents.query - tile.origin;
    sums[r] = softmax_row_sums(s + r * stride, tile.columns, position);
  }
  add_rows<T>({sums, static_cast<std::size_t>(tile.rows)},
              statistics[static_cast<std::size_t>(tile.head)]);
}

static_assert(kPanel<float> % 4 == 0 && kPanel<double> % 4 == 0,
              "a tile starts at a whole counter");

// The word of key j in row r of the whole batch is word j % 4 of counter r ceil(keys / 4) + j / 4.
template <std::floating_point T>
void drop_weights(const AttentionOperands<T>& operands, const Tile& tile, std::uint32_t* words,
                  bool mark, T* p, T* d, std::int64_t stride) {
  const AttentionExtents& extents = operands.extents;
  const DropoutRule rule = dropout_rule(operands.dropout_rate);
  const T factor = static_cast<T>(rule.factor);
  const std::int64_t example = operands.first_example + tile.example;
  const std::int64_t row = (example * extents.heads + tile.head) * extents.query + tile.first;
  const std::int64_t row_blocks = (extents.key + 3) / 4;
  const std::int64_t first_block = tile.origin / 4;
  const std::int64_t blocks = (tile.end + 3) / 4 - first_block;
  for (std::int64_t r = 0; r < tile.rows; ++r, p += stride, d += stride) {
    operands.dropout_stream.fill(
        static_cast<std::uint64_t>((row + r) * row_blocks + first_block),
        {words, static_cast<std::size_t>(std::max<std::int64_t>(blocks, 0) * 4)});
#pragma omp simd
    for (std::int64_t j = 0; j < tile.end - tile.origin; ++j) {
      const bool dropped = words[j] < rule.limit;
      const T weight = p[j];
      d[j] = dropped ? T(0) : weight * factor;
      p[j] = mark && dropped ? -weight : p[j];
    }
  }
}

template void add_bias<float>(const AttentionOperands<float>&, const Tile&, float*, std::int64_t);
template void add_bias_gradient<float>(const AttentionOperands<float>&, const Tile&, const float*,
                                       std::int64_t, const AttentionGradients<float>&);
template void cap_scores<float>(double, const Tile&, float*, std::int64_t);
template void find_kept_keys<float>(const AttentionOperands<float>&, std::int64_t, std::int64_t,
                                    std::uint8_t*, float*);
template void fill_flags<float>(const AttentionOperands<float>&, const Tile&, std::uint8_t*,
                                std::int64_t);
template void select_kept<float>(const AttentionOperands<float>&, const Tile&, const std::uint8_t*,
                                 std::int64_t, float*, std::int64_t);
template void normalise<float>(const AttentionOperands<float>&, const Tile&, float*, std::int64_t,
                               std::span<HeadStatistics>);
template void drop_weights<float>(const AttentionOperands<float>&, const Tile&, std::uint32_t*,
                                  bool, float*, float*, std::int64_t);
template void add_bias<double>(const AttentionOperands<double>&, const Tile&, double*,
                               std::int64_t);
template void add_bias_gradient<double>(const AttentionOperands<double>&, const Tile&,
                                        const double*, std::int64_t,
                                        const AttentionGradients<double>&);
template void cap_scores<double>(double, const Tile&, double*, std::int64_t);
template void find_kept_keys<double>(const AttentionOperands<double>&, std::int64_t, std::int64_t,
                                     std::uint8_t*, double*);
template void fill_flags<double>(const AttentionOperands<double>&, const Tile&, std::uint8_t*,
                                 std::int64_t);
template void select_kept<double>(const AttentionOperands<double>&, const Tile&,
                                  const std::uint8_t*, std::int64_t, double*, std::int64_t);
template void normalise<double>(const AttentionOperands<double>&, const Tile&, double*,
                                std::int64_t, std::span<HeadStatistics>);
template void drop_weights<double>(const AttentionOperands<double>&, const Tile&, std::uint32_t*,
                                   bool, double*, double*, std::int64_t);

}  // namespace attune::kernels
