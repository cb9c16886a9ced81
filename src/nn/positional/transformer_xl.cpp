#include <algorithm>
#include <string>

#include "attune/core/error.h"
#include "attune/nn/linear.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/columns.h"
#include "attune/ops/matmul.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "nn/positional/rotation_table.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// Keys [batch, key, width] that some query keeps; 0 for the others, where even NaN may stand.
Var seen(const Var& key, const Array& keep) {
  const std::vector<double> flags = keep.to_vector();  // [1 or batch, 1 or heads, query, key]
  const std::int64_t rows = keep.shape()[0], keys = keep.shape()[3];
  const std::int64_t pairs = rows == 0 ? 0 : keep.size() / rows;
  std::vector<double> is_seen(static_cast<std::size_t>(rows * keys), 0);
  for (std::int64_t n = 0; n < keep.size(); ++n) {
    double& one = is_seen[static_cast<std::size_t>(n / pairs * keys + n % keys)];
    one = std::max(one, flags[static_cast<std::size_t>(n)]);
  }
  return where(Array::from({rows, keys, 1}, is_seen, key.dtype()), key,
               Array::scalar(0, key.dtype()));
}

// Relative positions of Transformer-XL (Dai et al. 2019, section 3.3):
//   scale ((q_i + u) . k_j + (q_i + v) . W r_(i - j))
// r is the distance's sinusoids, sines before cosines. The second term is taken once for every
// distance and gathered by pair. (The paper's way, a shift of the rows, leaves garbage ahead of the
// query.) Parameters: content u and distance v [heads * head_dim] for all layers, <layer>.weight W
// [heads * head_dim, model].
class TransformerXl final : public PositionalEncoding {
 public:
  TransformerXl(const Scope& scope, const PositionalConfig& config, const InitScheme& init)
      : heads_(config.heads),
        causal_(config.causal),
        scale_(score_scale(config)),
        sinusoids_(scope.dtype(), rotary_pairs(config.model, kRotaryBase), config.block_size) {
    const std::int64_t width = config.heads * config.head_dim;
    const Initializer normal = init(Role::embedding, {width});
    content_ = &scope.parameter("content", {width}, normal, {.decays = false});
    distance_ = &scope.parameter("distance", {width}, normal, {.decays = false});
    for (std::int64_t layer = 0; layer < config.layers; ++layer)
      maps_.emplace_back(scope / layer, config.model, width, false, init);
  }

  [[nodiscard]] std::string_view name() const override { return "transformer-xl"; }

  void prepare(PositionContext& context, const Pass&) const override {
    const auto [keys, first, count] = context.distances();
    // No query of a causal model reads a key ahead, so any column will do for it.
    const std::int64_t high =
        causal_ ? std::min<std::int64_t>(first + count - 1, 0) : first + count - 1;
    const std::int64_t low = std::min(first, high);
    context.columns = context.clipped_distances(low, high);
    Positions behind{1, high - low + 1, {}};  // query - key, column by column
    for (std::int64_t distance = low; distance <= high; ++distance)
      behind.values.push_back(static_cast<std::int32_t>(-distance));
    const Rotation waves = sinusoids_(behind);
    const Var both = concat({Var(waves.sines), Var(waves.cosines)}, 2);
    context.column_features = reshape(both, {behind.time, -1}).value();
  }

  [[nodiscard]] bool depends_on_content() const override { return true; }
  [[nodiscard]] Var content_bias(const Var& query, const Var& key, const Var&, const Array& keep,
                                 int layer, const PositionContext& context,
                                 const Pass& pass) const override {
    const Var q = split_heads(query + pass(*distance_), heads_);
    const Var mapped = maps_[static_cast<std::size_t>(layer)](context.column_features, pass);
    const Var r = split_heads(reshape(mapped, {1, mapped.shape()[0], -1}), heads_);
    const Var by_distance = matmul(q, r, Transpose::no, Transpose::yes);
    const Var by_key = content_term(seen(key, keep), pass);
    return (take_columns(by_distance, context.columns) + by_key) * scale_;
  }

 private:
  // u . k_j: [batch, heads, 1, key]; key [batch, key, kv_heads * head_dim].
  [[nodiscard]] Var content_term(const Var& key, const Pass& pass) const {
    const std::int64_t head_dim = content_->shape()[0] / heads_;
    const std::int64_t kv_heads = key.shape()[2] / head_dim;
    const Var u = reshape(pass(*content_), {1, kv_heads, heads_ / kv_heads, head_dim});
    const Var terms = matmul(u, split_heads(key, kv_heads), Transpose::no, Transpose::yes);
    return reshape(terms, {key.shape()[0], heads_, 1, key.shape()[1]});
  }

  std::int64_t heads_;
  bool causal_;
  double scale_;
  RotationTable sinusoids_;
  const Parameter* content_;
  const Parameter* distance_;
  std::vector<Linear> maps_;  // [layers]
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_transformer_xl(const Scope& scope,
                                                        const PositionalConfig& config,
                                                        const InitScheme& init) {
  if (config.model % 2 != 0) {
    throw ConfigError("--pos transformer-xl: needs an even --n-embd, not " +
                      std::to_string(config.model));
  }
  return std::make_unique<TransformerXl>(scope, config, init);
}

}  // namespace attune::positional
