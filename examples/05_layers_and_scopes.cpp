// Layers are plain objects. A Scope names their parameters, a Pass says how a forward pass runs,
// and Hooks look inside it without any change to a layer.
#include <cmath>
#include <cstdio>

#include <attune/nn/feed_forward.h>
#include <attune/nn/multi_head_attention.h>
#include <attune/nn/norm.h>
#include <attune/ops/arithmetic.h>

using attune::Array;
using attune::Var;

namespace {

// Keeps the attention weights that pass by, [batch, heads, query, key].
class KeepPattern final : public attune::Hooks {
 public:
  Var at(attune::HookPoint point, int, const Var& x) override {
    if (point == attune::HookPoint::pattern) pattern = x.value();
    return x;
  }
  bool wants_inside_of_attention(int) const override { return true; }

  Array pattern;
};

}  // namespace

int main() {
  attune::ParameterStore store;
  const attune::Scope root(store, /*seed=*/1, attune::DType::float64);
  const attune::InitScheme init("xavier", 0.02, /*layers=*/1);
  const auto no_positions = attune::make_positional_encoding("none", root, {}, init);

  const attune::Norm norm(root / "norm", attune::NormKind::layernorm, 8, /*shift=*/true);
  const attune::MultiHeadAttention attention(root / "attention",
                                             {.model = 8, .heads = 2, .head_dim = 4}, *no_positions,
                                             init, /*layer=*/0);
  const attune::FeedForward ffn(root / "ffn", {.model = 8, .hidden = 32}, init, 0);

  for (const attune::Parameter& parameter : store) {
    std::printf("%-24s %s\n", parameter.name().c_str(),
                attune::to_string(parameter.shape()).c_str());
  }
  // norm 2 x 8, attention 4 x 8 x 8, feed-forward 2 x 8 x 32
  std::printf("%lld parameters\n", static_cast<long long>(store.elements()));
  if (store.elements() != 16 + 256 + 512 || !store.find("attention.query.weight")) {
    std::puts("the parameters are not those of the formulas");
    return 1;
  }

  // x + attention(norm(x)) and then + ffn, as in a transformer's block. x: [batch, time, model]
  const attune::RandomStream numbers = attune::Randomness{.seed = 2}.stream("input");
  Array x = Array::uninitialized({1, 4, 8}, attune::DType::float64);
  std::uint64_t index = 0;
  for (double& element : x.mutable_data<double>()) element = numbers.normal(index++);
  const auto block = [&](const attune::Pass& pass) {
    const Var h = x + attention(norm(x, pass), {}, pass);
    return (h + ffn(h, pass)).value();
  };
  KeepPattern kept;
  const Array with_hook = block({.hooks = &kept});
  const Array without = block({});

  std::puts("attention weights of head 0, row by row (causal):");
  double error = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < 4; ++j) {
      std::printf("  %.3f", kept.pattern.at({0, 0, i, j}));
      sum += kept.pattern.at({0, 0, i, j});
      if (j > i && kept.pattern.at({0, 0, i, j}) != 0) {
        std::puts("sees the future");
        return 1;
      }
    }
    std::puts("");
    error += std::abs(sum - 1);
    for (std::int64_t c = 0; c < 8; ++c)
      error += std::abs(with_hook.at({0, i, c}) - without.at({0, i, c}));
  }
  std::printf("rows sum to 1 and looking changes nothing, within %.1e in all\n", error);
  return error < 1e-13 ? 0 : 1;
}
