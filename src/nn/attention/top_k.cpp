#include "attune/nn/attention/top_k.h"

#include <limits>
#include <vector>

#include "attune/core/error.h"
#include "attune/ops/select.h"
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

}  // namespace

TopKAttention::TopKAttention(const Scope& scope, const AttentionConfig& config,
                             const PositionalEncoding& encoding, const InitScheme& init, int layer)
    : config_(top_k_config(config)),
      path_(scope.path()),
      encoding_(encoding),
      layer_(layer),
      maps_(scope, config_, init) {}

// A score of -inf is one that the softmax does not keep.
Var TopKAttention::operator()(const Var& x, const PositionContext& context,
                              const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Operands operands =
      with_positions_and_cache({maps_.query(x, pass), maps_.key(x, pass), maps_.value(x, pass)},
                               config_, encoding_, layer_, context, pass);
  const ScoreTransform keep_largest = [&](const Var& scores, const Array& keep) {
    const double nothing = -std::numeric_limits<double>::infinity();
    return where(chosen(scores.value(), keep, config_.top_k), scores,
                 Var(Array::scalar(nothing, scores.dtype())));
  };
  const Var mixed =
      attend(operands, config_, path_, encoding_, layer_, context, pass, keep_largest);
  return maps_.output(pass.hook(HookPoint::head_output, layer_, mixed), pass);
}

std::unique_ptr<SelfAttention> attention_kind::make_top_k(const Scope& scope,
                                                          const AttentionConfig& config,
                                                          const PositionalEncoding& encoding,
                                                          const InitScheme& init, int layer) {
  return std::make_unique<TopKAttention>(scope, config, encoding, init, layer);
}

}  // namespace attune
