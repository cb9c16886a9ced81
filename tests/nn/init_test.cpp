#include "attune/nn/init.h"

#include <cmath>
#include <string>

#include "nn/layer_test.h"

namespace attune::init_test {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

struct Expectation {
  const char* scheme;
  Role role;
  double variance;  // by the documented formula
};

constexpr std::int64_t kOut = 307;
constexpr std::int64_t kIn = 401;
constexpr double kStd = 0.03;
constexpr std::int64_t kLayers = 5;

class SchemeVariance : public testing::TestWithParam<Expectation> {};

// The sample variance of n numbers deviates by sqrt(2/n) = 0.4 % for a normal distribution; 4 of
// those are allowed.
TEST_P(SchemeVariance, IsTheDocumentedOne) {
  const auto& [scheme, role, expected] = GetParam();
  const Initializer initializer = InitScheme(scheme, kStd, kLayers)(role, {kOut, kIn});
  const std::vector<double> values =
      initializer.make({kOut, kIn}, DType::float64, Randomness{.seed = 3}.stream("w")).to_vector();
  const double n = kOut * kIn;
  EXPECT_NEAR(variance_of(values), expected, 4 * std::sqrt(2 / n) * expected);
  EXPECT_NEAR(mean_of(values), 0, 4 * std::sqrt(expected / n));
  EXPECT_NEAR(initializer.variance({kOut, kIn}), expected, 1e-12);
}

constexpr double kStdSquare = kStd * kStd;
INSTANTIATE_TEST_SUITE_P(
    Schemes, SchemeVariance,
    testing::Values(Expectation{"gpt2", Role::weight, kStdSquare},
                    Expectation{"gpt2", Role::residual_projection, kStdSquare / (2 * kLayers)},
                    Expectation{"gpt2", Role::embedding, kStdSquare},
                    Expectation{"gpt2", Role::head, kStdSquare},
                    Expectation{"normal", Role::residual_projection, kStdSquare},
                    Expectation{"xavier", Role::weight, 2.0 / (kIn + kOut)},
                    Expectation{"xavier", Role::residual_projection, 2.0 / (kIn + kOut)},
                    Expectation{"xavier", Role::embedding, kStdSquare},
                    Expectation{"kaiming", Role::weight, 2.0 / kIn},
                    Expectation{"kaiming", Role::embedding, kStdSquare},
                    Expectation{"pytorch", Role::residual_projection, 1.0 / (3 * kIn)},
                    Expectation{"pytorch", Role::embedding, kStdSquare},
                    Expectation{"orthogonal", Role::weight, 1.0 / kIn},
                    Expectation{"orthogonal", Role::embedding, kStdSquare}));

TEST(InitScheme, XavierIsUniformWithinItsBound) {
  const Initializer initializer = InitScheme("xavier", 0.02, 1)(Role::weight, {kOut, kIn});
  const double bound = std::sqrt(6.0 / (kIn + kOut));
  double largest = 0;
  for (const double value :
       initializer.make({kOut, kIn}, DType::float64, Randomness{}.stream("w")).to_vector()) {
    largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.999 * bound);
}

TEST(InitScheme, ConstantIsTheSameEverywhere) {
  const InitScheme scheme("constant", 0.125, 3);
  for (const Role role : {Role::weight, Role::residual_projection, Role::embedding, Role::head}) {
    const Array array = scheme(role, {2, 3}).make({2, 3}, DType::float32, Randomness{}.stream("w"));
    expect_near(array, std::vector<double>(6, 0.125), 0);
  }
}

TEST(InitScheme, EveryListedNameCanBeMade) {
  for (const InitScheme::Info& info : InitScheme::list()) {
    const InitScheme scheme(info.name, 0.02, 2);
    EXPECT_NO_THROW(static_cast<void>(scheme(Role::weight, {3, 5}))) << info.name;
    EXPECT_FALSE(info.description.empty());
  }
}

TEST(InitScheme, UnknownNameIsNamedWithTheNearest) {
  try {
    InitScheme("xavir", 0.02, 2);
    FAIL() << "did not throw";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--init: 'xavir' is unknown"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("xavier"), std::string::npos);
  }
}

// Of Q Q^T or Q^T Q, whichever is the smaller, minus gain^2 times the identity.
double distance_from_orthogonality(const Array& q, double gain) {
  const std::int64_t rows = q.shape()[0], columns = q.shape()[1];
  const bool wide = rows <= columns;
  double worst = 0;
  for (std::int64_t i = 0; i < std::min(rows, columns); ++i) {
    for (std::int64_t j = 0; j < std::min(rows, columns); ++j) {
      double dot = 0;
      for (std::int64_t k = 0; k < std::max(rows, columns); ++k) {
        dot += wide ? q.at({i, k}) * q.at({j, k}) : q.at({k, i}) * q.at({k, j});
      }
      worst = std::max(worst, std::abs(dot - (i == j ? gain * gain : 0)));
    }
  }
  return worst;
}

TEST(OrthogonalInitializer, RowsOfAWideMatrixAreOrthonormal) {
  const Array q =
      Initializer::orthogonal(1).make({31, 53}, DType::float64, Randomness{.seed = 5}.stream("q"));
  EXPECT_LE(distance_from_orthogonality(q, 1), 1e-12);
}

TEST(OrthogonalInitializer, ColumnsOfATallMatrixAreOrthonormal) {
  const Array q =
      Initializer::orthogonal(1).make({53, 31}, DType::float64, Randomness{.seed = 5}.stream("q"));
  EXPECT_LE(distance_from_orthogonality(q, 1), 1e-12);
}

TEST(OrthogonalInitializer, GainMultiplies) {
  const Array q =
      Initializer::orthogonal(3).make({17, 17}, DType::float64, Randomness{.seed = 5}.stream("q"));
  EXPECT_LE(distance_from_orthogonality(q, 3), 1e-11);
}

// Haar measure: each element is as often positive as negative, the diagonal too, where a QR without
// its signs corrected shows.
TEST(OrthogonalInitializer, DiagonalHasNoPreferredSign) {
  int positive = 0;
  constexpr int kDraws = 1000;
  for (int seed = 0; seed < kDraws; ++seed) {
    const Array q = Initializer::orthogonal(1).make(
        {3, 3}, DType::float64, Randomness{.seed = static_cast<std::uint64_t>(seed)}.stream("q"));
    positive += q.at({0, 0}) > 0 ? 1 : 0;
  }
  EXPECT_NEAR(positive, kDraws / 2, 4 * std::sqrt(kDraws / 4.0));
}

TEST(Initializer, Float32ValuesAreTheRoundedFloat64Draws) {
  const RandomStream stream = Randomness{.seed = 9}.stream("w");
  for (const Initializer& initializer :
       {Initializer::normal(0.02), Initializer::uniform(0.3), Initializer::orthogonal(1)}) {
    const std::vector<double> wide = initializer.make({7, 5}, DType::float64, stream).to_vector();
    const std::vector<double> narrow = initializer.make({7, 5}, DType::float32, stream).to_vector();
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(narrow[i], static_cast<double>(static_cast<float>(wide[i])));
    }
  }
}

TEST(Initializer, NormalDrawsAreThoseOfTheStream) {
  const RandomStream stream = Randomness{.seed = 9}.stream("w");
  const std::vector<double> values =
      Initializer::normal(2).make({3, 2}, DType::float64, stream).to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 2 * stream.normal(i));
}

}  // namespace attune::init_test
