#include <cmath>
#include <cstdlib>
#include <string>

#include "attune/core/error.h"
#include "attune/ops/attention.h"
#include "nn/positional/rotation_table.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr double kScaleBase = 512;
constexpr double kGamma = 0.4;
// Scales of queries and keys stay within 1e-20 to 1e20, so that float32 holds them, their products
// with features and their gradients.
constexpr double kLargestScale = 1e20;

// ln zeta_k / 512 with zeta_k = (2k + 0.4 d) / (1.4 d): what pair k loses a position.
double decay(std::int64_t k, std::int64_t head_dim) {
  const auto d = static_cast<double>(head_dim);
  return std::log((2 * static_cast<double>(k) + kGamma * d) / ((1 + kGamma) * d)) / kScaleBase;
}

// Extrapolatable position embedding (xPos; Sun et al. 2023, section 3.2): rotated as in RoPE, and
// pair k of a score decays with the distance,
//   q_i zeta_k^(i / 512)   k_j zeta_k^(-j / 512)
// For causal models alone: a key ahead would grow with its distance. Positions count from 0 in
// every pass (the centre that other codes subtract cancels), so a cache may hold scaled keys.
class Xpos final : public PositionalEncoding {
 public:
  Xpos(const Scope& scope, const PositionalConfig& config)
      : limit_(static_cast<std::int64_t>(std::log(kLargestScale) / -decay(0, config.head_dim))),
        queries_(scope.dtype(), pairs(config.head_dim, 1), config.block_size),
        keys_(scope.dtype(), pairs(config.head_dim, -1), config.block_size) {}

  [[nodiscard]] std::string_view name() const override { return "xpos"; }

  void prepare(PositionContext& context, const Pass&) const override {
    check(context.query);
    check(context.new_key);
    context.query_rotation = queries_(context.query);
    context.key_rotation = keys_(context.new_key);
  }
  [[nodiscard]] Var transform_query(const Var& x, std::int64_t heads,
                                    const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.query_rotation.cosines, context.query_rotation.sines,
                        false);
  }
  [[nodiscard]] Var transform_key(const Var& x, std::int64_t heads,
                                  const PositionContext& context) const override {
    return rotate_pairs(x, heads, context.key_rotation.cosines, context.key_rotation.sines, false);
  }

  [[nodiscard]] std::int64_t position_limit() const override { return limit_; }

 private:
  [[nodiscard]] static std::vector<RotationTable::Pair> pairs(std::int64_t head_dim, int sign) {
    std::vector<RotationTable::Pair> pairs = rotary_pairs(head_dim, kRotaryBase);
    for (std::size_t k = 0; k < pairs.size(); ++k)
      pairs[k].growth = sign * decay(static_cast<std::int64_t>(k), head_dim);
    return pairs;
  }
  void check(const Positions& positions) const {
    for (const std::int32_t position : positions.values) {
      if (std::abs(std::int64_t{position}) < limit_) continue;
      throw ValueError("xpos: position " + std::to_string(position) + " is beyond " +
                       std::to_string(limit_ - 1) + ", where scales would leave float32");
    }
  }

  std::int64_t limit_;
  RotationTable queries_;
  RotationTable keys_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_xpos(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme&) {
  require_even_head("xpos", config.head_dim);
  return std::make_unique<Xpos>(scope, config);
}

}  // namespace attune::positional
