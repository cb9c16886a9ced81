// A positional encoding of one's own: one class that overrides the hook points it needs. This one
// lowers the score of a key at distance d by s_h ln(1 + d), with a slope s_h > 0 that each head
// learns (a special case of the logarithmic kernel of Chi et al. 2022).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <attune/nn/multi_head_attention.h>
#include <attune/observe/gradcheck_suite.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/reduce.h>
#include <attune/ops/unary.h>

using attune::Array;
using attune::PositionContext;
using attune::Var;

namespace {

class LogDistance final : public attune::PositionalEncoding {
 public:
  LogDistance(const attune::Scope& scope, std::int64_t heads)
      : slope_(scope.parameter("slope", {1, heads, 1, 1}, attune::Initializer::constant(0.5),
                               {.decays = false})) {}

  std::string_view name() const override { return "log_distance"; }

  void prepare(PositionContext& context, const attune::Pass& pass) const override {
    const attune::Positions keys = context.key();
    Array distances =
        Array::uninitialized({1, 1, context.query.time, keys.time}, attune::DType::float64);
    auto* element = distances.mutable_data<double>().data();
    for (const std::int32_t query : context.query.values) {
      for (const std::int32_t key : keys.values) *element++ = std::log1p(std::abs(query - key));
    }
    context.score_bias = -(softplus(pass(slope_)) * Var(distances));  // [1, heads, query, key]
  }

 private:
  const attune::Parameter& slope_;
};

}  // namespace

int main() {
  attune::ParameterStore store;
  const attune::Scope root(store, /*seed=*/3, attune::DType::float64);
  const LogDistance encoding(root / "position", 2);
  const attune::InitScheme init("xavier", 0.02, 1);
  const attune::MultiHeadAttention attention(
      root / "attention", {.model = 6, .heads = 2, .head_dim = 3}, encoding, init, /*layer=*/0);

  const Array x = attune::Initializer::normal(1).make(
      {1, 5, 6}, attune::DType::float64, attune::Randomness{.seed = 4}.stream("input"));
  const auto forward = [&](const attune::Positions& positions, const attune::Pass& pass) {
    PositionContext context = PositionContext::of(positions);
    encoding.prepare(context, pass);
    return attention(x, context, pass);
  };
  const auto change = [](const Var& a, const Var& b) {
    return std::sqrt(sum(square(a - b)).value().item());
  };

  const Var here = forward(attune::Positions::range(0, 5), {});
  const double shifted = change(here, forward(attune::Positions::range(1000, 5), {}));
  const double stretched = change(here, forward({1, 5, {0, 2, 4, 6, 8}}, {}));
  std::printf("all positions 1000 further on: output changes by %.1e\n", shifted);
  std::printf("every distance doubled:        output changes by %.1e\n", stretched);
  if (!(shifted <= 1e-12 && stretched >= 1e-3)) {
    std::puts("not a function of distance");
    return 1;
  }

  // Every parameter, the slopes too, against finite differences.
  const attune::GradcheckReport report = attune::gradcheck_parameters(
      store,
      [&](const attune::Pass& pass) {
        return sum(square(forward(attune::Positions::range(0, 5), pass)));
      },
      {}, {});
  std::printf("%s", to_text(report).c_str());
  return report.passed() ? 0 : 1;
}
