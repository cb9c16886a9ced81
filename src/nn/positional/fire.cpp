#include <algorithm>
#include <cstdlib>

#include "attune/nn/linear.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr std::int64_t kHidden = 32;
constexpr double kSteepness = 0.1;
constexpr double kSmall = 1e-6;

// Functional interpolation of relative positions (FIRE; Li et al. 2024, section 3.2):
//   score_ij + f_h(psi(|i - j|) / (psi(max(L, i)) + 1e-6))    psi(x) = ln(|c x| + 1)
// with a network f of 32 ReLU units, one for all layers. Distances count against the query's own
// position i, so that longer texts stay within the ratios seen in training; a shift of all
// positions changes them. Parameters: steepness c, 0.1 at the start; threshold L as a share of the
// trained length, 1 at the start, for queries at positions beyond L teach it nothing; hidden and
// output, the maps of f.
class Fire final : public PositionalEncoding {
 public:
  Fire(const Scope& scope, const PositionalConfig& config)
      : dtype_(scope.dtype()),
        trained_length_(static_cast<double>(config.block_size)),
        steepness_(
            scope.parameter("steepness", {}, Initializer::constant(kSteepness), {.decays = false})),
        threshold_(scope.parameter("threshold", {}, Initializer::constant(1), {.decays = false})),
        hidden_(scope / "hidden", 1, kHidden, true, kaiming()),
        output_(scope / "output", kHidden, config.heads, true, kaiming()) {}

  [[nodiscard]] std::string_view name() const override { return "fire"; }
  [[nodiscard]] bool acts_on_scores() const override { return true; }

  void prepare(PositionContext& context, const Pass& pass) const override {
    const Positions keys = context.key();
    const std::int64_t rows = std::max(context.query.batch, keys.batch);
    std::vector<double> distances, places;
    for (std::int64_t b = 0; b < rows; ++b) {
      for (std::int64_t i = 0; i < context.query.time; ++i) {
        const std::int32_t place = context.query.row(b)[i];
        places.push_back(place);
        for (std::int64_t j = 0; j < keys.time; ++j)
          distances.push_back(std::abs(place - keys.row(b)[j]));
      }
    }
    const Shape pairs{rows, context.query.time, keys.time, 1};
    const Var place = Array::from(pairs.with(2, 1), places, dtype_);
    const Var threshold = abs(pass(threshold_)) * trained_length_;
    const Var ratio = psi(Array::from(pairs, distances, dtype_), pass) /
                      (psi(maximum(threshold, place), pass) + kSmall);
    const Var bias = output_(hidden_(ratio, pass, ActivationFunction::relu), pass);
    context.score_bias = transpose(bias, {0, 3, 1, 2});
  }

  [[nodiscard]] bool is_shift_invariant() const override { return false; }
  [[nodiscard]] bool depends_on_trained_length() const override { return true; }

 private:
  // Weights of a network whose one input is a ratio: of the inputs' number, not of a model's width.
  [[nodiscard]] static InitScheme kaiming() { return {"kaiming", 0, 1}; }
  [[nodiscard]] Var psi(const Var& x, const Pass& pass) const {
    return log(abs(pass(steepness_) * x) + 1);
  }

  DType dtype_;
  double trained_length_;
  const Parameter& steepness_;
  const Parameter& threshold_;
  Linear hidden_;
  Linear output_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_fire(const Scope& scope, const PositionalConfig& config,
                                              const InitScheme&) {
  return std::make_unique<Fire>(scope, config);
}

}  // namespace attune::positional
