#include "attune/ops/arithmetic.h"
#include "attune/ops/columns.h"
#include "attune/ops/matmul.h"
#include "attune/ops/shaping.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr std::int64_t kClip = 16;
constexpr std::int64_t kDistances = 2 * kClip + 1;

// Relative position representations (Shaw et al. 2018, section 3.2). With c = clip(j - i, -16, 16):
//   score_ij + scale q_i . a^K_c          z_i = sum_j weight_ij (v_j + a^V_c)
// weights after dropout. Parameters of each layer, one row a distance, for all heads: <layer>.key
// [33, head_dim], <layer>.value [33, value_dim].
class Shaw final : public PositionalEncoding {
 public:
  Shaw(const Scope& scope, const PositionalConfig& config, const InitScheme& init)
      : heads_(config.heads), scale_(score_scale(config)) {
    const Shape key{kDistances, config.head_dim};
    const Shape value{kDistances, config.value_dim == 0 ? config.head_dim : config.value_dim};
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      const Scope place = scope / layer;
      keys_.push_back(&place.parameter("key", key, init(Role::embedding, key)));
      values_.push_back(&place.parameter("value", value, init(Role::embedding, value)));
    }
  }

  [[nodiscard]] std::string_view name() const override { return "shaw"; }

  void prepare(PositionContext& context, const Pass&) const override {
    context.columns = context.clipped_distances(-kClip, kClip);
  }
  [[nodiscard]] bool depends_on_content() const override { return true; }
  [[nodiscard]] Var content_bias(const Var& query, const Var&, const Var&, const Array&, int layer,
                                 const PositionContext& context, const Pass& pass) const override {
    const Var table = pass(*keys_[static_cast<std::size_t>(layer)]);
    const Var by_distance = linear(split_heads(query, heads_), table);  // [.., query, distances]
    return take_columns(by_distance, context.columns) * scale_;
  }
  [[nodiscard]] Var value_term(const Var& weights, int layer, const PositionContext& context,
                               const Pass& pass) const override {
    const Var table = pass(*values_[static_cast<std::size_t>(layer)]);
    return merge_heads(matmul(sum_columns(weights, context.columns, kDistances), table));
  }

 private:
  std::int64_t heads_;
  double scale_;
  std::vector<const Parameter*> keys_;    // [layers]
  std::vector<const Parameter*> values_;  // [layers]
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_shaw(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme& init) {
  return std::make_unique<Shaw>(scope, config, init);
}

}  // namespace attune::positional
