#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attune/nn/dropout.h"
#include "attune/nn/embedding.h"
#include "attune/nn/linear.h"
#include "attune/nn/norm.h"
#include "attune/ops/unary.h"
#include "nn/layer_test.h"

// The small layers: linear, embedding, norm, dropout.
namespace attune::layers_test {

TEST(Linear, MultipliesByTheTransposedWeightAndAddsTheBias) {
  Bench bench;
  const Linear linear(bench.root / "map", 3, 2, true, bench.init);
  bench.store.find("map.weight")
      ->set_value(Array::from({2, 3}, {1, 2, 3, 4, 5, 6}, DType::float64));
  bench.store.find("map.bias")->set_value(Array::from({2}, {10, 20}, DType::float64));
  const Array y = linear(Array::from({1, 1, 3}, {1, 0, -1}, DType::float64), {}).value();
  ASSERT_EQ(y.shape(), (Shape{1, 1, 2}));
  expect_near(y, {8, 18}, 0);
}

TEST(Linear, WeightDecaysAndBiasStartsAtZeroAndDoesNot) {
  Bench bench;
  const Linear with(bench.root / "a", 3, 2, true, bench.init);
  const Linear without(bench.root / "b", 3, 2, false, bench.init);
  EXPECT_EQ(names_of(bench.store), (std::vector<std::string>{"a.weight", "a.bias", "b.weight"}));
  EXPECT_TRUE(bench.store.find("a.weight")->options().decays);
  EXPECT_FALSE(bench.store.find("a.bias")->options().decays);
  expect_near(bench.value("a.bias"), {0, 0}, 0);
}

TEST(Embedding, GivesTheRowsOfItsTable) {
  Bench bench;
  const Embedding embedding(bench.root / "tokens", 4, 3, bench.init);
  const std::vector<std::int32_t> ids = {3, 0, 3, 1};
  const Array y = embedding(ids, {2, 2}, {}).value();
  ASSERT_EQ(y.shape(), (Shape{2, 2, 3}));
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(y.at({i / 2, i % 2, c}),
                bench.value("tokens.weight").at({ids[static_cast<std::size_t>(i)], c}));
    }
  }
  EXPECT_TRUE(bench.store.find("tokens.weight")->options().decays);
}

TEST(Embedding, RefusesATokenOutsideItsTable) {
  Bench bench;
  const Embedding embedding(bench.root / "tokens", 4, 3, bench.init);
  const std::vector<std::int32_t> ids = {4};
  EXPECT_THROW(static_cast<void>(embedding(ids, {1, 1}, {})), ValueError);
}

TEST(Norm, ParametersFollowItsKind) {
  Bench bench;
  const Norm layer(bench.root / "a", NormKind::layernorm, 3, true);
  const Norm bare(bench.root / "b", NormKind::layernorm, 3, false);
  const Norm rms(bench.root / "c", NormKind::rmsnorm, 3, true);
  const Norm none(bench.root / "d", NormKind::none, 3, true);
  EXPECT_EQ(names_of(bench.store),
            (std::vector<std::string>{"a.gain", "a.shift", "b.gain", "c.gain"}));
  for (const Parameter& parameter : bench.store) EXPECT_FALSE(parameter.options().decays);
  expect_near(bench.value("a.gain"), {1, 1, 1}, 0);
  expect_near(bench.value("a.shift"), {0, 0, 0}, 0);
}

// By hand: (1, 2, 6) has mean 3 and variance 14/3; its mean square is 41/3.
TEST(Norm, NormalisesGainsAndShifts) {
  Bench bench;
  const Norm layer(bench.root / "a", NormKind::layernorm, 3, true);
  const Norm rms(bench.root / "b", NormKind::rmsnorm, 3, false);
  const Norm none(bench.root / "c", NormKind::none, 3, false);
  const Array factors = Array::from({3}, {1, 2, -1}, DType::float64);
  bench.store.find("a.gain")->set_value(factors);
  bench.store.find("b.gain")->set_value(factors);
  bench.store.find("a.shift")->set_value(Array::from({3}, {5, 0, 1}, DType::float64));
  const Var x(Array::from({1, 3}, {1, 2, 6}, DType::float64));
  const double deviation = std::sqrt(14.0 / 3 + 1e-5), root = std::sqrt(41.0 / 3 + 1e-6);
  expect_near(layer(x, {}).value(), {5 - 2 / deviation, -2 / deviation, 1 - 3 / deviation}, 1e-14);
  expect_near(rms(x, {}).value(), {1 / root, 4 / root, -6 / root}, 1e-14);
  expect_near(none(x, {}).value(), {1, 2, 6}, 0);
}

TEST(Norm, OfASumIsTheSumAndItsNorm) {
  Bench bench;
  const Norm norms[] = {Norm(bench.root / "a", NormKind::layernorm, 7, true),
                        Norm(bench.root / "b", NormKind::layernorm, 7, false),
                        Norm(bench.root / "c", NormKind::rmsnorm, 7, false),
                        Norm(bench.root / "d", NormKind::none, 7, false)};
  randomize(bench.store);
  const Array x = random_array({2, 3, 7}, 1), branch = random_array({2, 3, 7}, 2);
  std::vector<double> sum = x.to_vector();
  const std::vector<double> other = branch.to_vector();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  for (const Norm& norm : norms) {
    const ResidualNorm both = norm.of_sum(x, branch, {});
    expect_near(both.sum.value(), sum, 0);
    expect_near(both.normalised.value(), norm(both.sum, {}).value(), 0);
  }
}

TEST(Linear, EndsInAnActivation) {
  Bench bench;
  const Linear layer(bench.root / "map", 5, 7, true, bench.init);
  randomize(bench.store);
  const Array x = random_array({2, 3, 5}, 1);
  expect_near(layer(x, {}, ActivationFunction::relu).value(), relu(layer(x, {})).value(), 0);
  expect_near(layer(x, {}, ActivationFunction::silu).value(), silu(layer(x, {})).value(), 0);
}

Pass training_pass(std::int64_t first_example = 0) {
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 5, .step = 3};
  pass.first_example = first_example;
  return pass;
}

TEST(DropoutLayer, IsTheIdentityOutsideTraining) {  // B09
  Bench bench;
  const Dropout dropout(bench.root / "site", 0.5);
  const Array x = random_array({2, 3, 5}, 1);
  expect_near(dropout(x, {}).value(), x, 0);
}

TEST(DropoutLayer, RateZeroIsTheIdentityAndRateOneIsZero) {
  Bench bench;
  const Array x = random_array({2, 3, 5}, 1);
  expect_near(Dropout(bench.root / "site", 0)(x, training_pass()).value(), x, 0);
  expect_near(Dropout(bench.root / "site", 1)(x, training_pass()).value(),
              std::vector<double>(30, 0), 0);
}

TEST(DropoutLayer, KeepsTheMean) {  // B09
  Bench bench;
  const Dropout dropout(bench.root / "site", 0.5);
  double sum = 0;
  for (const double value : dropout(Array::full({10, 100, 100}, 1, DType::float32), training_pass())
                                .value()
                                .to_vector()) {
    ASSERT_TRUE(value == 0 || value == 2) << value;
    sum += value;
  }
  EXPECT_NEAR(sum / 1e5, 1, 0.02);
}

// B09
TEST(DropoutLayer, RefusesARateThatIsNone) {
  Bench bench;
  for (const double rate : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(Dropout(bench.root / "site", rate), ConfigError) << rate;
  }
}

// 7 values in a row: rows are padded to 8 numbers of the stream.
TEST(DropoutLayer, ShardsDrawWhatTheWholeBatchDraws) {
  Bench bench;
  const Dropout dropout(bench.root / "site", 0.4);
  const Array x = random_array({5, 3, 7}, 1, DType::float32);
  const Array whole = dropout(x, training_pass()).value();
  expect_near(dropout(rows_of(x, 0, 2), training_pass(0)).value(), rows_of(whole, 0, 2), 0);
  expect_near(dropout(rows_of(x, 2, 5), training_pass(2)).value(), rows_of(whole, 2, 5), 0);
}

TEST(DropoutLayer, SitesAndStepsDrawApart) {
  Bench bench;
  const Array x = Array::full({2, 3, 7}, 1, DType::float64);
  Pass later = training_pass();
  later.random.step = 4;
  const std::vector<double> here =
      Dropout(bench.root / "a", 0.5)(x, training_pass()).value().to_vector();
  EXPECT_EQ(here, Dropout(bench.root / "a", 0.5)(x, training_pass()).value().to_vector());
  EXPECT_NE(here, Dropout(bench.root / "b", 0.5)(x, training_pass()).value().to_vector());
  EXPECT_NE(here, Dropout(bench.root / "a", 0.5)(x, later).value().to_vector());
}

}  // namespace attune::layers_test
