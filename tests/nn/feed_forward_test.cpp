#include "attune/nn/feed_forward.h"

#include <cmath>

#include "attune/ops/reduce.h"
#include "nn/layer_test.h"

namespace attune::feed_forward_test {

// y = down(f) with f_h = activation of the hidden unit, in plain loops.
std::vector<double> by_hand(Bench& bench, const Array& x, Activation activation) {
  const auto unit = [&](const char* name, std::int64_t row, std::int64_t h) {
    double sum = bench.value(std::string("ffn.") + name + ".bias").at({h});
    for (std::int64_t c = 0; c < 3; ++c) {
      sum += bench.value(std::string("ffn.") + name + ".weight").at({h, c}) * x.at({0, row, c});
    }
    return sum;
  };
  const auto activated = [&](std::int64_t row, std::int64_t h) {
    const double u = unit("up", row, h);
    switch (activation) {
      case Activation::gelu:
        return u * 0.5 * std::erfc(-u / std::sqrt(2.0));
      case Activation::gelu_tanh:
        return u / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
      case Activation::relu:
        return std::max(u, 0.0);
      case Activation::swiglu:
        break;
    }
    const double gate = unit("gate", row, h);
    return gate / (1 + std::exp(-gate)) * u;
  };
  std::vector<double> y;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t c = 0; c < 3; ++c) {
      double sum = bench.value("ffn.down.bias").at({c});
      for (std::int64_t h = 0; h < 7; ++h) {
        sum += bench.value("ffn.down.weight").at({c, h}) * activated(row, h);
      }
      y.push_back(sum);
    }
  }
  return y;
}

class FeedForwardActivation : public testing::TestWithParam<Activation> {
 protected:
  FeedForwardActivation() : ffn_(bench_.root / "ffn", {3, 7, GetParam(), true}, bench_.init, 0) {
    randomize(bench_.store, 2);
  }
  Bench bench_;
  FeedForward ffn_;
  Array x_ = random_array({1, 2, 3}, 3, DType::float64, -2, 2);
};

TEST_P(FeedForwardActivation, EqualsItsFormula) {
  expect_near(ffn_(x_, {}).value(), by_hand(bench_, x_, GetParam()), 1e-12);
}

TEST_P(FeedForwardActivation, GradientsMatchDifferences) {
  expect_parameter_gradients_match(bench_.store, [&](Tape* tape) {
    Pass pass;
    pass.tape = tape;
    return sum(ffn_(x_, pass));
  });
}

INSTANTIATE_TEST_SUITE_P(All, FeedForwardActivation,
                         testing::Values(Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                         Activation::swiglu));

TEST(FeedForward, NamesItsParameters) {
  Bench bench;
  const FeedForward plain(bench.root / "a", {3, 7, Activation::gelu, false}, bench.init, 0);
  const FeedForward gated(bench.root / "b", {3, 7, Activation::swiglu, true}, bench.init, 0);
  EXPECT_EQ(
      names_of(bench.store),
      (std::vector<std::string>{"a.up.weight", "a.down.weight", "b.gate.weight", "b.gate.bias",
                                "b.up.weight", "b.up.bias", "b.down.weight", "b.down.bias"}));
  EXPECT_EQ(bench.value("b.gate.weight").shape(), (Shape{7, 3}));
  EXPECT_EQ(bench.value("b.down.weight").shape(), (Shape{3, 7}));
}

}  // namespace attune::feed_forward_test
