#include "attune/observe/study_statistics.h"

#include <cmath>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/observe/gaussian_entropy.h"
#include "attune/observe/study_lr.h"
#include "attune/observe/study_noise.h"
#include "attune/observe/study_scale.h"

namespace attune::study_statistics_test {

// Published tables of the 97.5 % point.
TEST(StudyStatistics, StudentTMeetsTheTables) {
  EXPECT_NEAR(student_t_95(1), 12.706, 5e-4);
  EXPECT_NEAR(student_t_95(2), 4.303, 5e-4);
  EXPECT_NEAR(student_t_95(4), 2.776, 5e-4);
  EXPECT_NEAR(student_t_95(15), 2.131, 5e-4);
  EXPECT_NEAR(student_t_95(1000), 1.962, 5e-4);
  EXPECT_THROW((void)student_t_95(0), ValueError);
}

// 1, 4, 0, 7 lie -2, 1, -3, 4 from their mean.
TEST(StudyStatistics, IntervalOfFourNumbersByHand) {
  const Interval interval = confidence_interval(std::vector<double>{1, 4, 0, 7});
  EXPECT_DOUBLE_EQ(interval.mean, 3);
  EXPECT_NEAR(interval.half_width, 3.1824 * std::sqrt((4 + 1 + 9 + 16) / 3.0 / 4.0), 1e-3);
  EXPECT_TRUE(std::isnan(confidence_interval(std::vector<double>{1}).half_width));
  EXPECT_TRUE(std::isnan(confidence_interval(std::vector<double>{1, NAN}).mean));
}

TEST(StudyStatistics, SlopeOfAPowerLawIsItsExponent) {
  const std::vector<double> x{8, 16, 32};
  EXPECT_NEAR(log_log_slope(x, std::vector<double>{3 / std::sqrt(8), 0.75, 3 / std::sqrt(32)}),
              -0.5, 1e-12);
  EXPECT_TRUE(
      std::isnan(least_squares_slope(std::vector<double>{2, 2}, std::vector<double>{1, 2})));
}

// The figures measured for T = 16, 64, 256 keys in PyTorch, to their three digits: no mask, and
// causal, where row i keeps i keys and the first row does not count.
TEST(GaussianEntropy, MeetsMeasuredEntropiesOfUnitScores) {
  const GaussianEntropy entropy(1);
  const double none[] = {0.850, 0.886, 0.911}, causal[] = {0.832, 0.868, 0.897};
  for (const int i : {0, 1, 2}) {
    const int time = 16 << (2 * i);
    double sum = 0, logs = 0;
    for (int n = 2; n <= time; ++n) {
      sum += entropy.nats(n);
      logs += std::log(n);
    }
    EXPECT_NEAR(entropy.nats(time) / std::log(time), none[i], 6e-4) << time;
    EXPECT_NEAR(sum / logs, causal[i], 6e-4) << time;
  }
}

// The integral over two scores alone: their difference x is N(0, 2 s^2), p = 1 / (1 + e^x).
TEST(GaussianEntropy, OfTwoKeysIsTheIntegralOverTheirDifference) {
  for (const double s : {0.0, 0.3, 2.0, 9.0}) {
    const double deviation = s * std::sqrt(2.0);
    double expected = 0;
    for (int i = -4000; i <= 4000; ++i) {
      const double z = i * 0.0025, p = 1 / (1 + std::exp(deviation * z)), q = 1 - p;
      const double h = -(p > 0 ? p * std::log(p) : 0) - (q > 0 ? q * std::log(q) : 0);
      expected += h * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi) * 0.0025;
    }
    EXPECT_NEAR(GaussianEntropy(s).nats(2), expected, 1e-6) << s;
  }
  EXPECT_EQ(GaussianEntropy(3).nats(1), 0);
  EXPECT_NEAR(GaussianEntropy(0.05).nats(64), std::log(64) - 0.05 * 0.05 / 2, 1e-4);
}

// A loop over the Jacobian's elements p_i (1[i = j] - p_j).
TEST(SoftmaxAtScale, JacobianNormIsThatOfItsElements) {
  const std::vector<double> scores{0.3, -1, 2, 0.5, 0.5, 0.5};
  const SoftmaxAtScale found = softmax_at_scale(Array::from({2, 3}, scores, DType::float64));
  double norm = 0, entropy = 0;
  for (const int row : {0, 1}) {
    double z = 0, square = 0;
    for (int j = 0; j < 3; ++j) z += std::exp(scores[static_cast<std::size_t>(3 * row + j)]);
    const auto p = [&](int j) {
      return std::exp(scores[static_cast<std::size_t>(3 * row + j)]) / z;
    };
    for (int i = 0; i < 3; ++i) {
      entropy -= p(i) * std::log(p(i)) / std::log(3) / 2;
      for (int j = 0; j < 3; ++j) square += std::pow(p(i) * ((i == j) - p(j)), 2);
    }
    norm += std::sqrt(square) / 2;
  }
  EXPECT_NEAR(found.jacobian, norm, 1e-12);
  EXPECT_NEAR(found.entropy_norm, entropy, 1e-12);
}

// At 64 keys: .124 in the limit of small scores, .184 at deviation 1, a peak of .296 near 4.
TEST(SoftmaxAtScale, JacobianRisesAndFallsWithTheScores) {
  const auto at = [](double deviation) {
    const RandomStream stream = Randomness{3, 0}.stream("test");
    return softmax_at_scale(normal_scores(2000, 64, deviation, stream)).jacobian;
  };
  EXPECT_NEAR(at(1e-3), std::sqrt(63.0) / 64, 1e-5);
  EXPECT_NEAR(at(1), 0.184, 0.002);
  EXPECT_NEAR(at(4), 0.296, 0.01);
  EXPECT_LT(at(16), 0.15);
}

TEST(SoftmaxAtScale, ProductsDeviateByTheRootOfTheirWidth) {
  const RandomStream stream = Randomness{4, 0}.stream("test");
  EXPECT_NEAR(softmax_at_scale(product_scores(100, 64, 49, 1, stream)).score_std, 7, 0.2);
}

// Gradients of examples are N(g, diag): |G|^2 and the trace are known.
TEST(NoiseScale, EstimatorsHaveNoBias) {
  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  const double g[] = {0.5, -1, 0.25}, deviation[] = {1, 2, 0.5};
  double square = 0, noise = 0;
  constexpr int kRounds = 20000, kParts = 3, kPart = 2;
  for (int round = 0; round < kRounds; ++round) {
    double small = 0, large = 0, sums[3] = {};
    for (int part = 0; part < kParts; ++part) {
      for (int i = 0; i < 3; ++i) {
        const double mean = g[i] + deviation[i] * normal(rng) / std::sqrt(kPart);
        small += mean * mean / kParts;
        sums[i] += mean / kParts;
      }
    }
    for (const double sum : sums) large += sum * sum;
    const NoiseScale found = noise_scale(kPart, small, kPart * kParts, large);
    square += found.gradient_square / kRounds;
    noise += found.noise / kRounds;
  }
  EXPECT_NEAR(square, 0.25 + 1 + 0.0625, 0.05);
  EXPECT_NEAR(noise, 1 + 4 + 0.25, 0.1);
  EXPECT_EQ((NoiseScale{0.5, 2}).examples(), 4);
  EXPECT_TRUE(std::isinf((NoiseScale{-0.5, 2}).examples()));
}

// A loss that falls as a sigmoid of ln rate around 1e-2 and blows up from 0.3 on.
TEST(RangeTest, ReadsACurve) {
  std::vector<double> rates, losses;
  for (int i = 0; i < 100; ++i) {
    const double rate = std::pow(10, -5 + 0.05 * i), x = std::log10(rate) + 2;
    rates.push_back(rate);
    losses.push_back(rate > 0.3 ? 50 : 3 - 2 / (1 + std::exp(-4 * x)));
  }
  const RangeTest found = read_range_test(rates, losses);
  EXPECT_NEAR(std::log10(found.steepest), -2, 0.1);
  EXPECT_NEAR(std::log10(found.lowest), -0.8, 0.2);
  EXPECT_NEAR(std::log10(found.diverges), -0.6, 0.25);
  EXPECT_EQ(found.suggested, found.steepest);
  EXPECT_TRUE(std::isnan(read_range_test({1, 2}, {NAN, NAN}).suggested));
}

}  // namespace attune::study_statistics_test
