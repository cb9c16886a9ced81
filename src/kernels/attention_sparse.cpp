#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_softmax.h"
#include "kernels/attention_tile.h"
#include "kernels/simd_batch.h"
#include "kernels/simd_math.h"

// Attention pair by pair, for masks that keep few; symbols as in kernels/attention.h. The scores of
// a row stand side by side in the order of its kept keys, in whole panels.
namespace attune::kernels {
namespace {

template <std::floating_point T>
T dot(const T* a, const T* b, std::int64_t n) {
  return sum_over<T>(n, [&](std::int64_t i, auto access) {
    return access.load(a + i, T(0)) * access.load(b + i, T(0));
  });
}

// y += a x
template <std::floating_point T>
void add_scaled(T a, const T* x, T* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t c = 0; c < n; ++c) y[c] += a * x[c];
}

// One query row and its kept keys.
struct PairRow {
  std::int64_t example, head, kv_head, i;
  std::span<const std::int32_t> keys;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(keys.size()); }
};

// Calls visit(row, first) for every query row; `first` counts the pairs before it.
template <std::floating_point T, class Visit>
void for_each_row(const AttentionOperands<T>& in, const KeptPairs& pairs, Visit visit) {
  const AttentionExtents& extents = in.extents;
  const std::int64_t group = extents.heads / extents.kv_heads;
  std::int64_t first = 0;
  for (std::int64_t b = 0; b < extents.batch; ++b)
    for (std::int64_t h = 0; h < extents.heads; ++h)
      for (std::int64_t i = 0; i < extents.query; ++i) {
        const PairRow row{b, h, h / group, i, pairs.row(b, h, i)};
        visit(row, first);
        first += row.count();
      }
}

template <std::floating_point T>
const T* query_of(const AttentionOperands<T>& in, const PairRow& row) {
  return row_of(in.query, row.example, row.head, in.extents.head_dim, row.i);
}
template <std::floating_point T>
const T* key_of(const AttentionOperands<T>& in, const PairRow& row, std::int32_t j) {
  return row_of(in.key, row.example, row.kv_head, in.extents.head_dim, j);
}
template <std::floating_point T>
const T* value_of(const AttentionOperands<T>& in, const PairRow& row, std::int32_t j) {
  return row_of(in.value, row.example, row.kv_head, in.extents.value_dim, j);
}

// Calls visit(l, place) with the place of the l-th key in an array shaped as the bias.
template <std::floating_point T, class Visit>
void for_each_bias(const AttentionOperands<T>& in, const PairRow& row, Visit visit) {
  const std::int64_t example = in.bias_per_example ? row.example : 0;
  const std::int64_t begin =
      ((example * in.extents.heads + row.head) * in.extents.query + row.i) * in.extents.key;
  for (std::size_t l = 0; l < row.keys.size(); ++l) visit(l, begin + row.keys[l]);
}
// The same for the table over distances.
template <std::floating_point T, class Visit>
void for_each_distance(const AttentionOperands<T>& in, const PairRow& row, Visit visit) {
  const DistanceTable<T>& distance = in.distance;
  const std::int64_t position = distance.query[row.example * distance.query_stride + row.i];
  const std::int32_t* key = distance.key + row.example * distance.key_stride;
  const std::int64_t begin = row.head * distance.distances - distance.first - position;
  for (std::size_t l = 0; l < row.keys.size(); ++l) visit(l, begin + key[row.keys[l]]);
}

// s = cap(scale Q K^T + bias + table[distance])
template <std::floating_point T>
void score(const AttentionOperands<T>& in, const PairRow& row, T* s) {
  const T* query = query_of(in, row);
  const T scale = static_cast<T>(in.scale);
  for (std::size_t l = 0; l < row.keys.size(); ++l)
    s[l] = scale * dot(query, key_of(in, row, row.keys[l]), in.extents.head_dim);
  if (in.bias != nullptr)
    for_each_bias(in, row, [&](std::size_t l, std::int64_t place) { s[l] += in.bias[place]; });
  if (in.distance.table != nullptr)
    for_each_distance(in, row,
                      [&](std::size_t l, std::int64_t place) { s[l] += in.distance.table[place]; });
  if (in.softcap == 0) return;
  const T cap = static_cast<T>(in.softcap);
  for (std::int64_t l = 0; l < row.count(); ++l) s[l] /= cap;
  tanh_into(s, s, row.count());
  for (std::int64_t l = 0; l < row.count(); ++l) s[l] *= cap;
}

// s = softmax(s), with the row's statistics where they are wanted.
template <std::floating_point T>
void normalise(const AttentionOperands<T>& in, const PairRow& row, T* s,
               std::span<HeadStatistics> statistics) {
  const std::int64_t columns = padded<T>(row.count());
  std::fill(s + row.count(), s + columns, -std::numeric_limits<T>::infinity());
  if (statistics.empty()) return softmax_row(s, columns);
  RowSums<T> sums = softmax_row_sums(s, columns, 0);
  const std::int64_t position = row.i + in.extents.key - in.extents.query;
  T distance = 0;  // of the keys' places in the row, not among the kept ones
  for (std::size_t l = 0; l < row.keys.size(); ++l)
    distance += s[l] * static_cast<T>(std::abs(row.keys[l] - position));
  sums.distance = distance * sums.partition;
  add_rows<T>({&sums, 1}, statistics[static_cast<std::size_t>(row.head)]);
}

// Makes the weights that dropout drops negative, -0 included.
template <std::floating_point T>
void mark_dropped(const AttentionOperands<T>& in, const PairRow& row, T* p) {
  if (in.dropout_rate == 0) return;
  const AttentionExtents& extents = in.extents;
  const DropoutRule rule = dropout_rule(in.dropout_rate);
  const std::int64_t global_row =
      ((in.first_example + row.example) * extents.heads + row.head) * extents.query + row.i;
  const std::int64_t first_block = global_row * ((extents.key + 3) / 4);
  for (std::size_t l = 0; l < row.keys.size(); ++l) {
    const std::int32_t j = row.keys[l];
    const auto words = in.dropout_stream.bits(static_cast<std::uint64_t>(first_block + j / 4));
    if (words[static_cast<std::size_t>(j % 4)] < rule.limit) p[l] = -p[l];
  }
}

template <std::floating_point T>
void clear_unless_added_to(const GradientRows<T>& gradient, std::int64_t batch, std::int64_t heads,
                           std::int64_t time, std::int64_t width) {
  if (gradient.rows.data == nullptr || gradient.accumulate) return;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < time; ++i)
        std::fill_n(row_of(gradient.rows, b, h, width, i), width, T(0));
}

}  // namespace

std::span<const std::int32_t> KeptPairs::row(std::int64_t example, std::int64_t head,
                                             std::int64_t i) const {
  const std::int64_t b = examples == 1 ? 0 : example, h = heads == 1 ? 0 : head;
  const auto* at = begin.data() + (b * heads + h) * (query + 1) + i;
  return {keys.data() + at[0], static_cast<std::size_t>(at[1] - at[0])};
}

std::int64_t KeptPairs::count(const AttentionExtents& extents) const {
  return static_cast<std::int64_t>(keys.size()) * (extents.batch / examples) *
         (extents.heads / heads);
}

KeptPairs kept_pairs(const Mask& mask, const AttentionExtents& extents) {
  KeptPairs pairs;
  if (mask.is_per_example()) pairs.examples = extents.batch;
  if (mask.is_per_head()) pairs.heads = extents.heads;
  pairs.query = extents.query;
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(extents.key));
  for (std::int64_t b = 0; b < pairs.examples; ++b)
    for (std::int64_t h = 0; h < pairs.heads; ++h) {
      for (std::int64_t i = 0; i < extents.query; ++i) {
        pairs.begin.push_back(static_cast<std::int64_t>(pairs.keys.size()));
        if (mask.fill_row(b, h, i, extents.query, extents.key, flags) == 0) continue;
        for (std::size_t j = 0; j < flags.size(); ++j)
          if (flags[j] != 0) pairs.keys.push_back(static_cast<std::int32_t>(j));
      }
      pairs.begin.push_back(static_cast<std::int64_t>(pairs.keys.size()));
    }
  return pairs;
}

template <std::floating_point T>
void attention_sparse(const AttentionOperands<T>& operands, const KeptPairs& pairs,
                      HeadRows<T> output, T* weights, std::span<HeadStatistics> statistics) {
  const T factor = static_cast<T>(dropout_rule(operands.dropout_rate).factor);
  const std::int64_t width = operands.extents.value_dim;
  Scratch<T> scores(padded<T>(operands.extents.key));
  for_each_row(operands, pairs, [&](const PairRow& row, std::int64_t first) {
    T* p = scores.data();
    score(operands, row, p);
    normalise(operands, row, p, statistics);
    mark_dropped(operands, row, p);
    if (weights != nullptr) std::copy_n(p, row.count(), weights + first);
    T* o = row_of(output, row.example, row.head, width, row.i);
    std::fill_n(o, width, T(0));
    for (std::size_t l = 0; l < row.keys.size(); ++l)
      if (!std::signbit(p[l]))
        add_scaled(factor * p[l], value_of(operands, row, row.keys[l]), o, width);
  });
}

template <std::floating_point T>
void attention_sparse_backward(const AttentionOperands<T>& operands, const KeptPairs& pairs,
                               const T* weights, HeadRows<const T> output_gradient,
                               const AttentionGradients<T>& gradients) {
  const AttentionExtents& extents = operands.extents;
  const T factor = static_cast<T>(dropout_rule(operands.dropout_rate).factor);
  const T scale = static_cast<T>(operands.scale);
  const std::int64_t width = extents.value_dim, key_width = extents.head_dim;
  clear_unless_added_to(gradients.query, extents.batch, extents.heads, extents.query, key_width);
  clear_unless_added_to(gradients.key, extents.batch, extents.kv_heads, extents.key, key_width);
  clear_unless_added_to(gradients.value, extents.batch, extents.kv_heads, extents.key, width);
  Scratch<T> ds_row(padded<T>(extents.key)), capped_row(padded<T>(extents.key));
  T *ds = ds_row.data(), *s = capped_row.data();
  for_each_row(operands, pairs, [&](const PairRow& row, std::int64_t first) {
    const T* p = weights + first;
    const T* dy = row_of(output_gradient, row.example, row.head, width, row.i);
    // dV_j += D_j dO, and ds = D G with its sum
    T total = 0;
    for (std::size_t l = 0; l < row.keys.size(); ++l) {
      const T d = std::signbit(p[l]) ? T(0) : factor * p[l];
      ds[l] = d == 0 ? T(0) : d * dot(dy, value_of(operands, row, row.keys[l]), width);
      total += ds[l];
      if (gradients.value.rows.data != nullptr && d != 0)
        add_scaled(d, dy,
                   row_of(gradients.value.rows, row.example, row.kv_head, width, row.keys[l]),
                   width);
    }
    // dS = (D G - P sum D G) cap'
    for (std::size_t l = 0; l < row.keys.size(); ++l) ds[l] -= std::abs(p[l]) * total;
    if (operands.softcap > 0) {
      score(operands, row, s);
      for (std::size_t l = 0; l < row.keys.size(); ++l) {
        const T t = s[l] / static_cast<T>(operands.softcap);
        ds[l] *= 1 - t * t;
      }
    }
    if (gradients.bias != nullptr)
      for_each_bias(operands, row,
                    [&](std::size_t l, std::int64_t at) { gradients.bias[at] += ds[l]; });
    if (gradients.distance != nullptr)
      for_each_distance(operands, row,
                        [&](std::size_t l, std::int64_t at) { gradients.distance[at] += ds[l]; });
    // dQ += scale dS K, dK += scale dS^T Q
    for (std::size_t l = 0; l < row.keys.size(); ++l) {
      const T slope = scale * ds[l];
      if (slope == 0) continue;
      const std::int32_t j = row.keys[l];
      if (gradients.query.rows.data != nullptr)
        add_scaled(slope, key_of(operands, row, j),
                   row_of(gradients.query.rows, row.example, row.head, key_width, row.i),
                   key_width);
      if (gradients.key.rows.data != nullptr)
        add_scaled(slope, query_of(operands, row),
                   row_of(gradients.key.rows, row.example, row.kv_head, key_width, j), key_width);
    }
  });
}

template void attention_sparse<float>(const AttentionOperands<float>&, const KeptPairs&,
                                      HeadRows<float>, float*, std::span<HeadStatistics>);
template void attention_sparse<double>(const AttentionOperands<double>&, const KeptPairs&,
                                       HeadRows<double>, double*, std::span<HeadStatistics>);
template void attention_sparse_backward<float>(const AttentionOperands<float>&, const KeptPairs&,
                                               const float*, HeadRows<const float>,
                                               const AttentionGradients<float>&);
template void attention_sparse_backward<double>(const AttentionOperands<double>&, const KeptPairs&,
                                                const double*, HeadRows<const double>,
                                                const AttentionGradients<double>&);

}  // namespace attune::kernels
