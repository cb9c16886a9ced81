#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "attune/ops/arithmetic.h"
#include "attune/ops/attention.h"
#include "attune/ops/dropout.h"
#include "attune/ops/matmul.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "attune/ops/softmax.h"
#include "attune/ops/unary.h"
#include "ops/attention_check.h"

namespace attune {
namespace {

using kernels::AttentionExtents;

// 1 where the mask keeps a key: [batch, heads, query, key].
Array keep_array(const Mask& mask, const AttentionExtents& extents, DType dtype) {
  std::vector<double> keep;
  for (std::int64_t b = 0; b < extents.batch; ++b)
    for (std::int64_t h = 0; h < extents.heads; ++h)
      for (std::int64_t i = 0; i < extents.query; ++i)
        for (std::int64_t j = 0; j < extents.key; ++j)
          keep.push_back(mask.keeps(b, h, i, j, extents.query, extents.key) ? 1 : 0);
  return Array::from({extents.batch, extents.heads, extents.query, extents.key}, keep, dtype);
}

// 1 where any query row of the heads that read a key keeps it: [batch, kv_heads, key, 1].
Array kept_keys(const Mask& mask, const AttentionExtents& extents, DType dtype) {
  const std::int64_t group = extents.heads / extents.kv_heads;
  std::vector<double> kept;
  for (std::int64_t b = 0; b < extents.batch; ++b)
    for (std::int64_t g = 0; g < extents.kv_heads; ++g)
      for (std::int64_t j = 0; j < extents.key; ++j) {
        bool any = false;
        for (std::int64_t h = g * group; h < (g + 1) * group; ++h)
          for (std::int64_t i = 0; i < extents.query; ++i)
            any = any || mask.keeps(b, h, i, j, extents.query, extents.key);
        kept.push_back(any ? 1 : 0);
      }
  return Array::from({extents.batch, extents.kv_heads, extents.key, 1}, kept, dtype);
}

// [batch, kv_heads, key, width] -> [batch, heads, key, width], each key head repeated for its query heads.
Var repeat_heads(const Var& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[1] == heads) return x;
  const std::int64_t group = heads / shape[1];
  const Var apart = reshape(x, Shape{shape[0], shape[1], 1, shape[2], shape[3]});
  const Var repeated =
      broadcast_to(apart, Shape{shape[0], shape[1], group, shape[2], shape[3]});
  return reshape(repeated, Shape{shape[0], heads, shape[2], shape[3]});
}

Var split_kept(const Var& x, const AttentionExtents& extents, const Array& kept) {
  const Var zero(Array::zeros({}, x.dtype()));
  return repeat_heads(where(kept, split_heads(x, extents.kv_heads), zero), extents.heads);
}

// One row of kept scores; `position` is the query's place among the keys.
struct KeptScore {
  double score;
  std::int64_t key;
};
void add_row(const std::vector<KeptScore>& row, std::int64_t position, HeadStatistics& statistics) {
  if (row.size() < 2) {
    ++(row.empty() ? statistics.rows_empty : statistics.rows_single);
    return;
  }
  const auto n = static_cast<double>(row.size());
  double largest = row[0].score, sum = 0, square_sum = 0;
  for (const KeptScore& kept : row) {
    largest = std::max(largest, kept.score);
    sum += kept.score;
    square_sum += kept.score * kept.score;
    statistics.score_max_abs = std::max(statistics.score_max_abs, std::abs(kept.score));
  }
  double partition = 0, variance = 0, entropy = 0, distance = 0;
  for (const KeptScore& kept : row) {
    partition += std::exp(kept.score - largest);
    variance += (kept.score - sum / n) * (kept.score - sum / n) / n;
  }
  for (const KeptScore& kept : row) {
    const double p = std::exp(kept.score - largest) / partition;
    if (p > 0) entropy -= p * std::log(p);
    distance += p * static_cast<double>(std::abs(position - kept.key));
  }
  ++statistics.rows_valid;
  statistics.entropy_sum += entropy;
  statistics.log_keys_sum += std::log(n);
  statistics.normalized_sum += entropy / std::log(n);
  statistics.effective_keys_sum += std::exp(entropy);
  statistics.max_probability_sum += 1 / partition;
  statistics.score_sum += sum;
  statistics.score_square_sum += square_sum;
  statistics.score_row_variance_sum += variance;
  statistics.score_count += n;
  statistics.distance_sum += distance;
}

void add_statistics(const Array& scores, const Mask& mask, const AttentionExtents& extents,
                    std::span<HeadStatistics> statistics) {
  const std::vector<double> values = scores.to_vector();
  std::size_t at = 0;
  std::vector<KeptScore> row;
  for (std::int64_t b = 0; b < extents.batch; ++b)
    for (std::int64_t h = 0; h < extents.heads; ++h)
      for (std::int64_t i = 0; i < extents.query; ++i) {
        row.clear();
        for (std::int64_t j = 0; j < extents.key; ++j, ++at) {
          const bool kept = mask.keeps(b, h, i, j, extents.query, extents.key);
          if (kept && values[at] != -INFINITY) row.push_back({values[at], j});
        }
        add_row(row, i + extents.key - extents.query, statistics[static_cast<std::size_t>(h)]);
      }
}

}  // namespace

Var attention_textbook(const Var& query, const Var& key, const Var& value, const Var& bias,
                       const AttentionOptions& options) {
  const AttentionExtents extents =
      check_attention("attention_textbook", query, key, value, bias, options);
  const Mask mask = options.mask == nullptr ? Mask::none() : *options.mask;
  const Array kept = kept_keys(mask, extents, query.dtype());
  const Var q = split_heads(query, extents.heads);
  const Var k = split_kept(key, extents, kept);
  const Var v = split_kept(value, extents, kept);

  Var scores = matmul(q, k, Transpose::no, Transpose::yes) * attention_scale(extents, options);
  if (!bias.is_null()) scores = scores + bias;
  if (options.softcap > 0) scores = tanh(scores / options.softcap) * options.softcap;
  if (!options.statistics.empty())
    add_statistics(scores.value(), mask, extents, options.statistics);

  const Var pattern = masked_softmax(scores, keep_array(mask, extents, query.dtype()));
  const AttentionDropout& drop = options.dropout;
  const Var weights = dropout(pattern, drop.rate, drop.stream,
                              drop.first_example * extents.heads * extents.query);
  return merge_heads(matmul(weights, v));
}

}  // namespace attune
