#include "attune/nn/attention/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "nn/attention/dot_product.h"
#include "nn/attention/kinds.h"
#include "nn/attention/top_indices.h"

namespace attune {

using namespace attention_parts;

namespace {

AttentionConfig top_k_config(const AttentionConfig& config) {
  if (config.top_k < 1) {
    throw ConfigError("--attn-top-k: " + std::to_string(config.top_k) + ", expected 1 or more");
  }
  return checked(
      "top-k", config,
      {.kv_heads = true, .value_dim = true, .scale = true, .softcap = true, .dropout = true});
}

// 1 where one of the k largest kept scores of a row stands: the shape of scores [batch, heads,
// query, key]. keep [1 or batch, 1 or heads, query, key].
Array chosen(const Array& scores, const Array& keep, std::int64_t k) {
  const Shape& extents = scores.shape();
  const std::int64_t heads = extents[1], query = extents[2], key = extents[3];
  std::vector<std::uint8_t> kept;
  dispatch(keep.dtype(), [&]<class T>() {
    for (const T flag : keep.data<T>()) kept.push_back(flag != 0);
  });
  Array flags = Array::zeros(extents, scores.dtype());
  for (std::int64_t row = 0; row < extents.size() / std::max<std::int64_t>(key, 1); ++row) {
    const std::int64_t i = row % query, h = row / query % heads, b = row / query / heads;
    const std::int64_t keep_row =
        ((keep.shape()[0] == 1 ? 0 : b) * keep.shape()[1] + (keep.shape()[1] == 1 ? 0 : h)) *
            query +
        i;
    const auto of_row = std::span(kept).subspan(static_cast<std::size_t>(keep_row * key),
                                                static_cast<std::size_t>(key));
    const std::vector<std::int32_t> largest = top_indices(scores, row, k, of_row);
    dispatch(flags.dtype(), [&]<class T>() {
      T* flag = flags.mutable_data<T>().data() + row * key;
      for (const std::int32_t j : largest) flag[j] = 1;
    });
  }
  return flags;
}

// [batch, time, heads * width] -> [batch, kv_heads, heads of a group, time, width], off the tape.
Var grouped(const Var& x, std::int64_t heads, std::int64_t kv_heads) {
  const Var apart = split_heads(x.detached(), heads);
  const Shape& shape = apart.shape();
  return reshape(apart, {shape[0], kv_heads, heads / kv_heads, shape[2], shape[3]});
}

// The pairs whose score is one of the k largest that the mask keeps in a row, as a mask. Scores are
// products of queries and keys alone, and are forgotten after a block of rows.
Mask largest(const Operands& operands, const AttentionConfig& config, const Mask& mask) {
  constexpr std::int64_t kMostScores = 1 << 19;  // of a block
  const std::int64_t batch = operands.query.shape()[0], heads = config.heads;
  const std::int64_t query = operands.query.shape()[1], key = operands.key.shape()[1];
  mask.check(batch, heads, query, key);
  if (batch * query * key == 0) return mask;  // there is nothing to choose from
  const double scale =
      config.scale != 0 ? config.scale : 1 / std::sqrt(static_cast<double>(config.head_dim));
  const Var q = grouped(operands.query, heads, config.kv_heads) * scale;
  const Var k = grouped(operands.key, config.kv_heads, config.kv_heads);
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(batch * heads * query * key), 0);
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(key));
  const std::int64_t of_a_row = std::max<std::int64_t>(batch * heads * key, 1);
  const std::int64_t rows = std::max<std::int64_t>(kMostScores / of_a_row, 1);
  for (std::int64_t begin = 0; begin < query; begin += rows) {
    const std::int64_t end = std::min(begin + rows, query);
    const Array scores = matmul(slice(q, 3, begin, end), k, Transpose::no, Transpose::yes).value();
    for (std::int64_t head = 0; head < batch * heads; ++head)
      for (std::int64_t i = begin; i < end; ++i) {
        mask.fill_row(head / heads, head % heads, i, query, key, kept);
        const std::int64_t row = head * (end - begin) + i - begin;
        for (const std::int32_t j : top_indices(scores, row, config.top_k, kept))
          flags[static_cast<std::size_t>((head * query + i) * key + j)] = 1;
      }
  }
  return Mask::custom(batch, heads, query, key, std::move(flags));
}

}  // namespace

TopKAttention::TopKAttention(const Scope& scope, const AttentionConfig& config,
                             const PositionalEncoding& encoding, const InitScheme& init, int layer)
    : config_(top_k_config(config)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      maps_(scope, config_, init) {}

// Where scores are products alone and nobody looks inside, the chosen pairs are a mask, and kernels
// go over those that it keeps; else the composition has all scores, where -inf is one that the
// softmax does not keep.
Var TopKAttention::operator()(const Var& x, const PositionContext& context,
                              const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Operands operands =
      with_positions_and_cache({maps_.query(x, pass), maps_.key(x, pass), maps_.value(x, pass)},
                               config_, encoding_, layer_, context, pass);
  const bool adds_to_scores = !context.score_bias.is_null() || !context.distance_table.is_null() ||
                              encoding_.depends_on_content() || config_.softcap != 0;
  if (!adds_to_scores && !(pass.hooks && pass.hooks->wants_inside_of_attention(layer_))) {
    const Mask mask =
        largest(operands, config_, pass.mask ? config_.mask & *pass.mask : config_.mask);
    const AttentionOptions options = options_of(config_, path_, layer_, mask, context, pass);
    return output(attend(operands, options, encoding_, layer_, context, pass), pass);
  }
  const ScoreTransform keep_largest = [&](const Var& scores, const Array& keep) {
    const double nothing = -std::numeric_limits<double>::infinity();
    return where(chosen(scores.value(), keep, config_.top_k), scores,
                 Var(Array::scalar(nothing, scores.dtype())));
  };
  return output(attend(operands, config_, path_, encoding_, layer_, context, pass, keep_largest),
                pass);
}

Var TopKAttention::output(const Var& mixed, const Pass& pass) const {
  return maps_.output(pass.hook(HookPoint::head_output, layer_, mixed), pass);
}

std::unique_ptr<SelfAttention> attention_kind::make_top_k(const Scope& scope,
                                                          const AttentionConfig& config,
                                                          const PositionalEncoding& encoding,
                                                          const InitScheme& init, int layer) {
  return std::make_unique<TopKAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
