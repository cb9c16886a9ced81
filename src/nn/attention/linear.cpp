#include "attune/nn/attention/linear.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "attune/core/error.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "nn/attention/dot_product.h"
#include "nn/attention/kinds.h"

namespace attune {

using namespace attention_parts;

namespace {

// Whether a band is causal, or keeps everything; windows and prefixes are neither.
bool is_causal_or_none(const Mask& mask) {
  constexpr std::int64_t kLong = std::numeric_limits<std::int32_t>::max();
  if (!mask.is_band()) return false;
  const Mask::Range first = mask.band(0, kLong, kLong), last = mask.band(kLong - 1, kLong, kLong);
  return last.begin == 0 && last.end == kLong && first.end == (mask.is_causal() ? 1 : kLong);
}

AttentionConfig linear_config(const char* kind, const AttentionConfig& config,
                              const PositionalEncoding& encoding) {
  if (encoding.acts_on_scores()) {
    throw ConfigError(fmt::format(
        "--attention {}: --pos {} adds to scores, of which there are none, expected an encoding of "
        "embeddings or of queries and keys",
        kind, encoding.name()));
  }
  if (!is_causal_or_none(config.mask)) {
    throw ConfigError(fmt::format("--attention {}: --mask is neither causal nor none", kind));
  }
  return checked(kind, config, {.value_dim = true, .scale = true});
}

// Which keys of each example a pass keeps: [batch, 1, key, 1], or null for all. A mask that is more
// than padding has a row that keeps another key than the last one does.
Array padding_of(const char* kind, const Mask& mask, const Mask& own, std::int64_t batch,
                 std::int64_t query, std::int64_t key, DType dtype) {
  if (is_causal_or_none(mask) && (own.is_causal() || !mask.is_causal())) return {};
  mask.check(batch, 1, query, key);
  bool is_padding = !mask.is_per_head();
  std::vector<std::uint8_t> last(static_cast<std::size_t>(key)), row(last.size());
  std::vector<double> kept;
  for (std::int64_t b = 0; b < batch; ++b) {
    (mask & own).fill_row(b, 0, query - 1, query, key, last);
    for (std::int64_t i = 0; i < query && is_padding; ++i) {
      (mask & own).fill_row(b, 0, i, query, key, row);
      const auto seen = static_cast<std::ptrdiff_t>(own.band(i, query, key).end);
      is_padding = std::equal(row.begin(), row.begin() + seen, last.begin());
    }
    kept.insert(kept.end(), last.begin(), last.end());
  }
  if (!is_padding) {
    throw UsageError(
        fmt::format("attention {}: the pass's mask is more than padding of keys", kind));
  }
  return Array::from({batch, 1, key, 1}, kept, dtype);
}

}  // namespace

LinearAttention::LinearAttention(const char* kind, const Scope& scope,
                                 const AttentionConfig& config,
                                 std::unique_ptr<FeatureMap> features,
                                 const PositionalEncoding& encoding, const InitScheme& init,
                                 int layer)
    : kind_(kind),
      config_(linear_config(kind, config, encoding)),
      path_(scope.path()),
      features_(std::move(features)),
      encoding_(encoding),
      layer_(layer),
      maps_(scope, config_, init) {}

Var LinearAttention::operator()(const Var& x, const PositionContext& context,
                                const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Operands operands =
      with_positions_and_cache({maps_.query(x, pass), maps_.key(x, pass), maps_.value(x, pass)},
                               config_, encoding_, layer_, context, pass);
  const Var query = split_heads(operands.query, config_.heads);
  Var key = split_heads(operands.key, config_.heads);
  Var value = split_heads(operands.value, config_.heads);
  const bool causal = config_.mask.is_causal() || (pass.mask && pass.mask->is_causal());
  Array kept;
  if (pass.mask) {
    kept = padding_of(kind_, *pass.mask, causal ? Mask::causal() : Mask::none(), x.shape()[0],
                      query.shape()[2], key.shape()[2], x.dtype());
  }
  if (!kept.is_null()) {
    const Var zero(Array::zeros({}, x.dtype()));
    key = where(kept, key, zero);
    value = where(kept, value, zero);
  }
  const Var mixed = merge_heads(linear_attention(*features_, query, key, value, causal, kept));
  return maps_.output(pass.hook(HookPoint::head_output, layer_, mixed), pass);
}

Var LinearAttention::step(const Var& x, const PositionContext& context, LinearAttentionState& state,
                          const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const Operands operands =
      with_positions_and_cache({maps_.query(x, pass), maps_.key(x, pass), maps_.value(x, pass)},
                               config_, encoding_, layer_, context, pass);
  const Var mixed =
      linear_attention_step(features_->of_queries(split_heads(operands.query, config_.heads)),
                            features_->of_keys(split_heads(operands.key, config_.heads)),
                            split_heads(operands.value, config_.heads), state);
  return maps_.output(merge_heads(mixed), pass);
}

std::unique_ptr<SelfAttention> attention_kind::make_linear(const Scope& scope,
                                                           const AttentionConfig& config,
                                                           const PositionalEncoding& encoding,
                                                           const InitScheme& init, int layer) {
  if (config.scale != 0) throw ConfigError("--attention linear: --attn-scale is not a part of it");
  return std::make_unique<LinearAttention>("linear", scope, config, std::make_unique<EluFeatures>(),
                                           encoding, init, layer);
}

}  // namespace attune
