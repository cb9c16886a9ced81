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
#include "core/index.h"
#include "ops/attention_check.h"
#include "ops/attention_row_statistics.h"

namespace attune {
namespace {

using kernels::AttentionExtents;

// Which keys every query row keeps: 1 or 0.
struct Kept {
  Array pairs;  // [1 or batch, 1 or heads, query, key]
  // Of any query row of the heads that read a key: [batch, kv_heads, key, 1].
  Array keys;
  // How many a row keeps: [1 or batch, 1 or heads, query, 1]; at least 1.
  Array counts;
};

Kept kept_by(const Mask& mask, const AttentionExtents& extents, DType dtype) {
  const std::int64_t batch = mask.is_per_example() ? extents.batch : 1;
  const std::int64_t heads = mask.is_per_head() ? extents.heads : 1;
  const std::int64_t group = extents.heads / extents.kv_heads;
  Kept kept{Array::uninitialized({batch, heads, extents.query, extents.key}, dtype),
            Array::zeros({extents.batch, extents.kv_heads, extents.key, 1}, dtype),
            Array::uninitialized({batch, heads, extents.query, 1}, dtype)};
  std::vector<std::uint8_t> flags(index(extents.key));
  dispatch(dtype, [&]<class T>() {
    T* pair = kept.pairs.mutable_data<T>().data();
    T* count = kept.counts.mutable_data<T>().data();
    T* keys = kept.keys.mutable_data<T>().data();
    // A mask that examples or heads share is written down once, also where there is no example.
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < extents.query; ++i) {
          const std::int64_t n = mask.fill_row(b, h, i, extents.query, extents.key, flags);
          *count++ = static_cast<T>(std::max<std::int64_t>(n, 1));
          T* any = keys + (b * extents.kv_heads + h / group) * extents.key;
          for (std::int64_t j = 0; j < extents.key; ++j) {
            *pair++ = static_cast<T>(flags[index(j)]);
            if (flags[index(j)] != 0 && extents.batch > 0) any[j] = T(1);
          }
        }
    for (std::int64_t row = 0; row < extents.batch * extents.kv_heads; ++row) {
      const std::int64_t b = batch == 1 ? 0 : row / extents.kv_heads;
      const std::int64_t h = heads == 1 ? 0 : row % extents.kv_heads;
      const T* written = keys + (b * extents.kv_heads + h) * extents.key;
      if (written != keys + row * extents.key)
        std::copy_n(written, extents.key, keys + row * extents.key);
    }
  });
  return kept;
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

// x [batch, heads, query, key] -> sum_h mix[g, h] x_h; mix [heads, heads].
Var mix_heads(const Var& mix, const Var& x) {
  const Shape& shape = x.shape();
  const Var rows = reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
  return reshape(matmul(mix, rows), shape);
}

struct Weights {
  Var pattern;  // [batch, heads, query, key]
  Array sink;   // the sink's: [batch, heads, query, 1]; null: none
};

// The sink is one more key behind the others, which no mask drops.
Weights softmax_with_sink(const Var& scores, const Var& sink, const Array& keep) {
  const Shape& shape = scores.shape();
  const std::int64_t key = shape[3];
  const Shape column{shape[0], shape[1], shape[2], 1};
  const Var logits = broadcast_to(reshape(sink, {1, shape[1], 1, 1}), column);
  const Shape& k = keep.shape();
  const Var always(Array::full({k[0], k[1], k[2], 1}, 1, keep.dtype()));
  const Var all = masked_softmax(concat({scores, logits}, 3), concat({keep, always}, 3).value());
  return {slice(all, 3, 0, key), slice(all, 3, key, key + 1).value()};
}

Weights normalise(const Var& scores, const Kept& kept, const AttentionOptions& options) {
  const Var zero(Array::zeros({}, scores.dtype()));
  switch (options.normaliser) {
    case Normaliser::sigmoid:
      return {where(kept.pairs, sigmoid(scores - log(Var(kept.counts))), zero), {}};
    case Normaliser::relu:
      return {where(kept.pairs, relu(scores) / Var(kept.counts), zero), {}};
    case Normaliser::softmax:
      break;
  }
  if (options.sink.is_null()) return {masked_softmax(scores, kept.pairs), {}};
  return softmax_with_sink(scores, options.sink, kept.pairs);
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
  const Kept kept =
      kept_by(options.mask == nullptr ? Mask::none() : *options.mask, extents, query.dtype());
  const Var q = split_heads(query, extents.heads);
  const Var k = split_kept(key, extents, kept.keys);
  const Var v = split_kept(value, extents, kept.keys);

  Var scores = matmul(q, k, Transpose::no, Transpose::yes) * attention_scale(extents, options);
  if (!bias.is_null()) scores = scores + bias;
  if (!options.distance_bias.table.is_null())
    scores = scores + expand(options.distance_bias, extents.query, extents.key);
  if (options.softcap > 0) scores = tanh(scores / options.softcap) * options.softcap;
  if (!options.mix_scores.is_null()) scores = mix_heads(options.mix_scores, scores);
  if (!options.temperature.is_null())
    scores = scores / reshape(options.temperature, {extents.heads, 1, 1});
  if (stages.scores) scores = stages.scores(scores, kept.pairs);

  auto [pattern, sink] = normalise(scores, kept, options);
  if (stages.pattern) pattern = stages.pattern(pattern);
  if (!options.statistics.empty()) {
    add_row_statistics(scores.value(), pattern.value(), kept.pairs, sink,
                       options.normaliser != Normaliser::softmax, extents, options.statistics);
  }

  const AttentionDropout& drop = options.dropout;
  Var weights =
      dropout(pattern, drop.rate, drop.stream, drop.first_example * extents.heads * extents.query);
  if (!options.mix_weights.is_null()) weights = mix_heads(options.mix_weights, weights);
  if (stages.weights) weights = stages.weights(weights);
  return merge_heads(matmul(weights, v));
}

}  // namespace attune
