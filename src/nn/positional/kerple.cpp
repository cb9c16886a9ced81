#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// A parameter [heads, 1] whose starting values `from_uniform` makes of uniform numbers in [0, 1).
const Parameter& make_parameter(const Scope& scope, const char* name, std::int64_t heads,
                                const std::function<double(double)>& from_uniform) {
  Parameter& parameter =
      scope.parameter(name, {heads, 1}, Initializer::uniform(1), {.decays = false});
  std::vector<double> values = parameter.value().to_vector();
  for (double& value : values) value = from_uniform((value + 1) / 2);
  parameter.set_value(Array::from({heads, 1}, values, scope.dtype()));
  return parameter;
}

constexpr double kSmallest = 0.01;  // that p and a start with
constexpr double kLargestPower = 2;

double inverse_softplus(double y) { return std::log(std::expm1(y)); }
double logit(double share) { return std::log(share / (1 - share)); }

// Kernelized relative positions (KERPLE; Chi et al. 2022, section 4). With p and a of each head:
//   logarithmic  score_ij - p ln(1 + a |i - j|)    p, a > 0
//   power        score_ij - a |i - j|^p            a > 0, 0 < p < 2
// Parameters [heads, 1]: amount (p, or a of the power form) and shape (a, or p of the power form).
// What they hold goes through softplus, the exponent through 2 sigmoid, so they stay in their
// domain. As in the paper a starts as U(0, 1) and p as U(0, 2), here with 0.01 as the least.
class Kerple final : public PositionalEncoding {
 public:
  enum class Form : std::uint8_t { logarithmic, power };
  Kerple(const Scope& scope, std::int64_t heads, Form form) : dtype_(scope.dtype()), form_(form) {
    const bool is_power = form == Form::power;
    const auto at_least = [](double value) { return std::max(value, kSmallest); };
    amount_ = &make_parameter(scope, "amount", heads, [=](double u) {
      return inverse_softplus(at_least(is_power ? u : kLargestPower * u));
    });
    shape_ = &make_parameter(scope, "shape", heads, [=](double u) {
      return is_power ? logit(std::clamp(u, kSmallest, 1 - kSmallest))
                      : inverse_softplus(at_least(u));
    });
  }

  [[nodiscard]] std::string_view name() const override {
    return form_ == Form::power ? "kerple-power" : "kerple";
  }
  [[nodiscard]] bool acts_on_scores() const override { return true; }

  void prepare(PositionContext& context, const Pass& pass) const override {
    auto [keys, first, count] = context.distances();
    std::vector<double> distances;
    for (std::int64_t d = first; d < first + count; ++d)
      distances.push_back(static_cast<double>(std::abs(d)));
    const Var amount = softplus(pass(*amount_));
    context.distance_table = -(amount * growth(distances, pass));  // [heads, distances]
    context.first_distance = first;
    context.distance_keys = std::move(keys);
  }

 private:
  // ln(1 + a d), or d^p = e^(p ln d). At distance 0 the power is 0 and has no slope; ln is taken of
  // a distance of 1 there, for 0 ln 0 is not a number.
  [[nodiscard]] Var growth(std::vector<double> distances, const Pass& pass) const {
    const Shape row{1, static_cast<std::int64_t>(distances.size())};
    const Var distance = Array::from(row, distances, dtype_);
    if (form_ == Form::logarithmic) return log(1 + softplus(pass(*shape_)) * distance);
    std::vector<double> is_apart;
    for (double& d : distances) {
      is_apart.push_back(d > 0 ? 1 : 0);
      d = std::log(std::max(d, 1.0));
    }
    const Var exponent = kLargestPower * sigmoid(pass(*shape_));
    return exp(exponent * Array::from(row, distances, dtype_)) * Array::from(row, is_apart, dtype_);
  }

  DType dtype_;
  Form form_;
  const Parameter* amount_;
  const Parameter* shape_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_kerple(const Scope& scope, const PositionalConfig& config,
                                                const InitScheme&) {
  return std::make_unique<Kerple>(scope, config.heads, Kerple::Form::logarithmic);
}

std::unique_ptr<PositionalEncoding> make_kerple_power(const Scope& scope,
                                                      const PositionalConfig& config,
                                                      const InitScheme&) {
  return std::make_unique<Kerple>(scope, config.heads, Kerple::Form::power);
}

}  // namespace attune::positional
