#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attune/ops/reduce.h"
#include "nn/encoding_test.h"

// Learned biases of distance: kerple and fire, against loops of the tests' own.
namespace attune::learned_bias_encoding_test {

void set(Bench& bench, const std::string& name, const std::vector<double>& values) {
  Parameter& parameter = *bench.store.find("position." + name);
  parameter.set_value(Array::from(parameter.shape(), values, parameter.dtype()));
}

double inverse_softplus(double y) { return std::log(std::exp(y) - 1); }

// The gradient of the sum of what prepare() adds to scores, with respect to one parameter.
Array bias_gradient(const PositionalEncoding& encoding, Bench& bench, const Positions& positions,
                    const std::string& name) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const PositionContext context = context_of(encoding, positions, positions, pass);
  const Var& added = context.score_bias.is_null() ? context.distance_table : context.score_bias;
  return tape.backward(sum(added))[*bench.store.find("position." + name)];
}

// --- kerple: Chi et al. 2022 ---

// Two heads: p = 1.5, a = 0.3 and p = 0.4, a = 2.
TEST(KerpleEncoding, LogarithmicFormIsThePapers) {
  Bench bench;
  const auto kerple = make("kerple", bench, config_of(8, 2));
  set(bench, "amount", {inverse_softplus(1.5), inverse_softplus(0.4)});
  set(bench, "shape", {inverse_softplus(0.3), inverse_softplus(2)});
  const Array bias = bias_of(context_of(*kerple, Positions::range(3, 5), Positions::range(0, 9)));
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 9; ++j) {
      const double far = std::abs(static_cast<double>(i + 3 - j));
      EXPECT_NEAR(bias.at({0, 0, i, j}), -1.5 * std::log(1 + 0.3 * far), 1e-12);
      EXPECT_NEAR(bias.at({0, 1, i, j}), -0.4 * std::log(1 + 2 * far), 1e-12);
    }
  }
}

// Exponents p = 1.5 and 0.5 of a = 0.3 and 2; 2 sigmoid(ln 3) = 1.5.
TEST(KerpleEncoding, PowerFormIsThePapers) {
  Bench bench;
  const auto kerple = make("kerple-power", bench, config_of(8, 2));
  set(bench, "amount", {inverse_softplus(0.3), inverse_softplus(2)});
  set(bench, "shape", {std::log(3), -std::log(3)});
  const Array bias = bias_of(context_of(*kerple, Positions::range(3, 5), Positions::range(0, 9)));
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 9; ++j) {
      const double far = std::abs(static_cast<double>(i + 3 - j));
      EXPECT_NEAR(bias.at({0, 0, i, j}), -0.3 * std::pow(far, 1.5), 1e-12);
      EXPECT_NEAR(bias.at({0, 1, i, j}), -2 * std::pow(far, 0.5), 1e-12);
    }
  }
}

TEST(KerpleEncoding, GradientsAtDistanceZeroAreFinite) {
  for (const char* name : {"kerple", "kerple-power"}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      Bench bench(dtype);
      const auto kerple = make(name, bench, config_of(8, 2));
      for (const char* parameter : {"amount", "shape"}) {
        expect_near(bias_gradient(*kerple, bench, at(5), parameter), {0, 0}, 0);
        for (const double slope :
             bias_gradient(*kerple, bench, Positions::range(0, 4), parameter).to_vector()) {
          EXPECT_LT(slope, 0) << name << ' ' << parameter;
        }
      }
    }
  }
}

// p ~ U(0, 2) and a ~ U(0, 1), of 2000 heads.
TEST(KerpleEncoding, StartsInThePapersRanges) {
  Bench bench;
  static_cast<void>(make("kerple", bench, config_of(4000, 2000)));
  for (const auto& [name, largest] : {std::pair{"amount", 2.0}, std::pair{"shape", 1.0}}) {
    double mean = 0;
    for (const double raw : bench.value(std::string("position.") + name).to_vector()) {
      const double value = std::log(1 + std::exp(raw));
      EXPECT_GE(value, 0.01 - 1e-12);
      EXPECT_LT(value, largest);
      mean += value / 2000;
    }
    EXPECT_NEAR(mean, largest / 2, 4 * largest / std::sqrt(12 * 2000)) << name;
    EXPECT_FALSE(bench.store.find(std::string("position.") + name)->options().decays);
  }
}

// --- fire: Li et al. 2024 ---

TEST(FireEncoding, IsTheNetworkOfTheRatio) {
  Bench bench;
  const auto fire = make("fire", bench, config_of(8, 2, 6));
  randomize(bench.store);
  set(bench, "steepness", {-0.7});
  set(bench, "threshold", {0.5});  // 3 of the trained 6
  const Positions query{2, 2, {1, 5, 2, 11}}, key = Positions::range(0, 12);
  const Array bias = context_of(*fire, query, key).score_bias.value();
  ASSERT_EQ(bias.shape(), (Shape{2, 2, 2, 12}));
  const auto psi = [](double x) { return std::log(std::abs(-0.7 * x) + 1); };
  const Array& weight = bench.value("position.hidden.weight");
  const Array& shift = bench.value("position.hidden.bias");
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 2; ++i) {
      for (std::int64_t j = 0; j < 12; ++j) {
        const double place = query.row(b)[i];
        const double ratio =
            psi(place - static_cast<double>(j)) / (psi(std::max(3.0, place)) + 1e-6);
        for (std::int64_t h = 0; h < 2; ++h) {
          double expected = bench.value("position.output.bias").at({h});
          for (std::int64_t unit = 0; unit < 32; ++unit) {
            expected += bench.value("position.output.weight").at({h, unit}) *
                        std::max(0.0, weight.at({unit, 0}) * ratio + shift.at({unit}));
          }
          EXPECT_NEAR(bias.at({b, h, i, j}), expected, 1e-12);
        }
      }
    }
  }
}

TEST(FireEncoding, TheThresholdLearnsWithinTheTrainedLength) {
  Bench bench;
  const auto fire = make("fire", bench, config_of(8, 2, 6));
  expect_near(bench.value("position.steepness"), {0.1}, 1e-12);
  const double slope =
      bias_gradient(*fire, bench, Positions::range(0, 6), "threshold").to_vector()[0];
  EXPECT_GT(std::abs(slope), 1e-3);
  set(bench, "threshold", {0});  // every query stands before it
  expect_near(bias_gradient(*fire, bench, Positions::range(1, 6), "threshold"), {0}, 0);
}

}  // namespace attune::learned_bias_encoding_test
