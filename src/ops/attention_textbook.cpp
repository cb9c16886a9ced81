#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
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

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

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

// [batch, kv_heads, key, width] -> [batch, heads, key, width], each key head repeated for its query
// heads.
Var repeat_heads(const Var& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[1] == heads) return x;
  const std::int64_t group = heads / shape[1];
  const Var apart = reshape(x, Shape{shape[0], shape[1], 1, shape[2], shape[3]});
  const Var repeated = broadcast_to(apart, Shape{shape[0], shape[1], group, shape[2], shape[3]});
  return reshape(repeated, Shape{shape[0], heads, shape[2], shape[3]});
}

Var split_kept(const Var& x, const AttentionExtents& extents, const Array& kept) {
  const Var zero(Array::zeros({}, x.dtype()));
  return repeat_heads(where(kept, split_heads(x, extents.kv_heads), zero), extents.heads);
}

struct KeptKey {
  double score;
  double weight;
  double distance;
};

// How far outside [0, ln n] rounding alone may put an entropy.
constexpr double kEntropyRounding = 1e-5;

void add_row(const std::vector<KeptKey>& row, HeadStatistics& statistics) {
  if (row.size() < 2) {
    ++(row.empty() ? statistics.rows_empty : statistics.rows_single);
    return;
  }
  const auto n = static_cast<double>(row.size());
  double sum = 0, entropy = 0, largest_weight = 0;
  for (const KeptKey& key : row) {
    sum += key.score;
    if (key.weight > 0) entropy -= key.weight * std::log(key.weight);
    largest_weight = std::max(largest_weight, key.weight);
    statistics.score_square_sum += key.score * key.score;
    statistics.score_max_abs = std::max(statistics.score_max_abs, std::abs(key.score));
    statistics.distance_sum += key.weight * key.distance;
  }
  for (const KeptKey& key : row)
    statistics.score_row_variance_sum += (key.score - sum / n) * (key.score - sum / n) / n;
  if (!(entropy >= -kEntropyRounding && entropy <= std::log(n) + kEntropyRounding))
    ++statistics.violations;
  entropy = std::clamp(entropy, 0.0, std::log(n));
  ++statistics.rows_valid;
  statistics.entropy_sum += entropy;
  statistics.log_keys_sum += std::log(n);
  statistics.normalized_sum += entropy / std::log(n);
  statistics.effective_keys_sum += std::exp(entropy);
  statistics.max_probability_sum += largest_weight;
  statistics.score_sum += sum;
  statistics.score_count += n;
}

// A key whose score is -inf counts as not kept.
void add_statistics(const Array& scores, const Array& pattern, const Mask& mask,
                    const AttentionExtents& extents, std::span<HeadStatistics> statistics) {
  const std::vector<double> score = scores.to_vector();
  const std::vector<double> weight = pattern.to_vector();
  std::size_t at = 0;
  std::vector<KeptKey> row;
  for (std::int64_t b = 0; b < extents.batch; ++b)
    for (std::int64_t h = 0; h < extents.heads; ++h)
      for (std::int64_t i = 0; i < extents.query; ++i) {
        const std::int64_t position = i + extents.key - extents.query;
        row.clear();
        for (std::int64_t j = 0; j < extents.key; ++j, ++at) {
          const bool kept = mask.keeps(b, h, i, j, extents.query, extents.key);
          if (!kept || score[at] == -std::numeric_limits<double>::infinity()) continue;
          row.push_back({score[at], weight[at], static_cast<double>(std::abs(position - j))});
        }
        add_row(row, statistics[static_cast<std::size_t>(h)]);
      }
}

}  // namespace

Var expand(const DistanceBias& bias, std::int64_t query, std::int64_t key) {
  const auto rows = [](std::span<const std::int32_t> positions, std::int64_t time) {
    return time == 0 ? 1 : static_cast<std::int64_t>(positions.size()) / time;
  };
  const std::int64_t query_rows = rows(bias.query_positions, query);
  const std::int64_t key_rows = rows(bias.key_positions, key);
  const std::int64_t batch = std::max(query_rows, key_rows);
  std::vector<std::int32_t> columns;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto queries = bias.query_positions.subspan(index(query_rows == 1 ? 0 : b * query));
    const auto keys = bias.key_positions.subspan(index(key_rows == 1 ? 0 : b * key));
    for (std::int64_t i = 0; i < query; ++i)
      for (std::int64_t j = 0; j < key; ++j)
        columns.push_back(
            static_cast<std::int32_t>(keys[index(j)] - queries[index(i)] - bias.first));
  }
  const Var by_distance = transpose(bias.table, {1, 0});
  return transpose(gather_rows(by_distance, columns, {batch, query, key}), {0, 3, 1, 2});
}

Var attention_textbook(const Var& query, const Var& key, const Var& value, const Var& bias,
                       const AttentionOptions& options, const AttentionStages& stages) {
  const AttentionExtents extents =
      check_attention("attention_textbook", query, key, value, bias, options);
  const Mask mask = options.mask == nullptr ? Mask::none() : *options.mask;
  const Array keep = keep_array(mask, extents, query.dtype());
  const Array kept = kept_keys(mask, extents, query.dtype());
  const Var q = split_heads(query, extents.heads);
  const Var k = split_kept(key, extents, kept);
  const Var v = split_kept(value, extents, kept);

  Var scores = matmul(q, k, Transpose::no, Transpose::yes) * attention_scale(extents, options);
  if (!bias.is_null()) scores = scores + bias;
  if (!options.distance_bias.table.is_null())
    scores = scores + expand(options.distance_bias, extents.query, extents.key);
  if (options.softcap > 0) scores = tanh(scores / options.softcap) * options.softcap;
  if (stages.scores) scores = stages.scores(scores, keep);

  Var pattern = masked_softmax(scores, keep);
  if (stages.pattern) pattern = stages.pattern(pattern);
  if (!options.statistics.empty())
    add_statistics(scores.value(), pattern.value(), mask, extents, options.statistics);

  const AttentionDropout& drop = options.dropout;
  Var weights =
      dropout(pattern, drop.rate, drop.stream, drop.first_example * extents.heads * extents.query);
  if (stages.weights) weights = stages.weights(weights);
  return merge_heads(matmul(weights, v));
}

}  // namespace attune
