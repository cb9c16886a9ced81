#include "attune/nn/attention/random_features.h"

#include "attune/ops/arithmetic.h"
#include "attune/ops/attention.h"
#include "attune/ops/matmul.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_random_features_test {

constexpr DType kDouble = DType::float64;

RandomFeatures features_of(std::int64_t count, std::int64_t width, std::uint64_t seed) {
  return {count, width, 0, kDouble, Randomness{.seed = seed}.stream("features")};
}

TEST(RandomFeatures, DirectionsAreOrthogonalInGroupsAndAsLongAsNormalVectors) {
  constexpr std::int64_t kCount = 20, kWidth = 8;
  double squares = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Array w = features_of(kCount, kWidth, seed).directions();
    ASSERT_EQ(to_string(w.shape()), "[20, 8]");
    for (std::int64_t r = 0; r < kCount; ++r) {
      for (std::int64_t s = 0; s <= r; ++s) {
        double product = 0;
        for (std::int64_t c = 0; c < kWidth; ++c) product += w.at({r, c}) * w.at({s, c});
        if (r == s) squares += product / (50 * kCount);
        const bool are_of_one_group = r / kWidth == s / kWidth;
        EXPECT_FALSE(r != s && are_of_one_group && std::abs(product) > 1e-12) << r << " " << s;
      }
    }
  }
  EXPECT_NEAR(squares, kWidth, 0.4) << "mean of 1000 chi-squared numbers of 8 degrees";
}

// phi(q) . phi(k) relative to e^(q . k / sqrt(d)), whose mean is 1.
TEST(RandomFeatures, AreUnbiasedForTheSoftmaxKernel) {
  const Array key = random_array({1, 1, 1, 4}, 2);
  const Array query = random_array({1, 1, 1, 4}, 1);
  double score = 0, mean = 0;
  for (std::int64_t c = 0; c < 4; ++c) score += query.at({0, 0, 0, c}) * key.at({0, 0, 0, c}) / 2;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomFeatures features = features_of(64, 4, seed);
    // Both as keys: queries' features are relative to their largest.
    const Var product =
        matmul(features.of_keys(query), features.of_keys(key), Transpose::no, Transpose::yes);
    mean += product.value().item() / std::exp(score) / 200;
  }
  EXPECT_NEAR(mean, 1, 0.02);
}

TEST(RandomFeatures, OfQueriesAreThoseOfKeysUpToAFactorOfEachQuery) {
  const RandomFeatures features = features_of(6, 4, 1);
  const Array x = random_array({1, 2, 3, 4}, 1, kDouble, -2, 2);
  const Array queries = features.of_queries(x).value(), keys = features.of_keys(x).value();
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 3; ++i) {
      double largest = 0;
      for (std::int64_t r = 0; r < 6; ++r) largest = std::max(largest, keys.at({0, h, i, r}));
      for (std::int64_t r = 0; r < 6; ++r) {
        EXPECT_NEAR(queries.at({0, h, i, r}), keys.at({0, h, i, r}) / largest / std::sqrt(6.0),
                    1e-14);
      }
    }
  }
}

// Root mean square of the difference from softmax attention.
double error_of(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kTime = 32, kWidth = 8;
  const Array query = random_array({1, kTime, kWidth}, 1, kDouble, -0.5, 0.5);
  const Array key = random_array({1, kTime, kWidth}, 2, kDouble, -0.5, 0.5);
  const Array value = random_array({1, kTime, kWidth}, 3);
  const Mask causal = Mask::causal();
  const Row exact = attention(query, key, value, {}, {.mask = &causal}).value().to_vector();
  const RandomFeatures features = features_of(count, kWidth, seed);
  const Row found =
      linear_attention(features.of_queries(split_heads(Var(query), 1)),
                       features.of_keys(split_heads(Var(key), 1)), split_heads(Var(value), 1), true)
          .value()
          .to_vector();
  double squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    squares += (found[i] - exact[i]) * (found[i] - exact[i]) / static_cast<double>(exact.size());
  return std::sqrt(squares);
}

TEST(RandomFeatures, ErrorAgainstSoftmaxFallsAsTheRootOfTheirNumber) {
  Row x, y;
  for (std::int64_t count = 16; count <= 2048; count *= 2) {
    double error = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) error += error_of(count, seed) / 20;
    x.push_back(std::log(static_cast<double>(count)));
    y.push_back(std::log(error));
  }
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / static_cast<double>(x.size());
    mean_y += y[i] / static_cast<double>(x.size());
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  EXPECT_NEAR(xy / xx, -0.5, 0.05);
}

TEST(RandomFeatures, GradientsAreThoseOfTheFormula) {
  const RandomFeatures features = features_of(5, 3, 1);
  expect_gradients_match([&](std::span<const Var> in) { return features.of_keys(in[0]); },
                         {random_array({1, 2, 3, 3}, 1)});
}

TEST(RandomFeatures, AreDrawnForEachLayerAndTheSameForASeed) {
  const auto directions = [](std::uint64_t seed, const char* name) {
    ParameterStore store;
    const Scope scope = Scope(store, seed, kDouble) / name;
    return RandomFeatures(4, 3, 0, kDouble, scope.stream("features")).directions().to_vector();
  };
  EXPECT_EQ(directions(1, "block.0"), directions(1, "block.0"));
  EXPECT_NE(directions(1, "block.0"), directions(1, "block.1"));
  EXPECT_NE(directions(1, "block.0"), directions(2, "block.0"));
}

TEST(RandomFeatures, RefuseNoFeatures) {
  expect_throws<ConfigError>([] { (void)features_of(0, 3, 1); },
                             "random features: 0 of heads of width 3, expected 1 or more");
  expect_throws<ConfigError>(
      [] { (void)features_of(60000, 65536, 1); },
      "random features: 60000 of heads of width 65536 are too many, expected "
      "at most 4194304 numbers");
}

}  // namespace attune::attention_random_features_test
