#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "ops/op_test.h"

namespace attune::rotate_pairs_test {

struct Angles {
  Array cosines, sines;
};

// Angles position * base^(-2k / rotated) with base 10000, [1, positions, rotated / 2].
Angles angles_at(const std::vector<double>& positions, std::int64_t rotated, DType dtype) {
  std::vector<double> cosines, sines;
  for (const double position : positions) {
    for (std::int64_t k = 0; k < rotated / 2; ++k) {
      const double exponent = -2.0 * static_cast<double>(k) / static_cast<double>(rotated);
      cosines.push_back(std::cos(position * std::pow(10000.0, exponent)));
      sines.push_back(std::sin(position * std::pow(10000.0, exponent)));
    }
  }
  const Shape shape{1, static_cast<std::int64_t>(positions.size()), rotated / 2};
  return {Array::from(shape, cosines, dtype), Array::from(shape, sines, dtype)};
}

Array rotate_one(std::initializer_list<double> x, double position, bool interleaved,
                 DType dtype = DType::float64) {
  const auto [cosines, sines] = angles_at({position}, 4, dtype);
  return rotate_pairs(Array::from({1, 1, 4}, x, dtype), 1, cosines, sines, interleaved).value();
}

double dot(const Array& a, const Array& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

// Values of spec/cases.md B11 and spec/attention.md section 3.
TEST(RotatePairs, PublishedValuesOfBothPairings) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    expect_near(rotate_one({1, 2, 3, 4}, 1, true, dtype), {-1.142640, 1.922076, 2.959851, 4.029800},
                1e-6);
    expect_near(rotate_one({1, 2, 3, 4}, 1, false, dtype),
                {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6);
    expect_near(rotate_one({1, 2, 3, 4}, 3, true, dtype),
                {-1.272233, -1.838865, 2.878668, 4.088187}, 1e-6);
    expect_near(rotate_one({1, 2, 3, 4}, 3, false, dtype),
                {-1.413353, 1.879118, -2.828857, 4.058191}, 1e-6);
  }
}

TEST(RotatePairs, ScoresDependOnTheDistanceAlone) {  // B11
  for (const auto& [interleaved, expected] : {std::pair{true, 1.190051}, {false, -3.456429}}) {
    for (const auto& [i, j] : {std::pair{5.0, 3.0}, {2.0, 0.0}, {105.0, 103.0}, {1005.0, 1003.0}}) {
      const double score =
          dot(rotate_one({1, 2, 3, 4}, i, interleaved), rotate_one({4, 3, 2, 1}, j, interleaved));
      EXPECT_NEAR(score, expected, 1e-6) << interleaved << " at " << i;
    }
  }
}

TEST(RotatePairs, PositionZeroIsTheIdentity) {
  for (const bool interleaved : {false, true})
    expect_near(rotate_one({1, 2, 3, 4}, 0, interleaved), {1, 2, 3, 4}, 0);
}

// A naive loop over every feature of every head.
std::vector<double> naive(const Array& x, std::int64_t heads, const Angles& angles,
                          bool interleaved) {
  std::vector<double> y = x.to_vector();
  const std::int64_t time = x.shape()[1], width = x.shape()[2] / heads;
  const std::int64_t pairs = angles.cosines.shape()[2];
  for (std::int64_t b = 0; b < x.shape()[0]; ++b)
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t k = 0; k < pairs; ++k) {
          const std::int64_t head = h * width;
          const std::int64_t first = head + (interleaved ? 2 * k : k);
          const std::int64_t second = head + (interleaved ? 2 * k + 1 : k + pairs);
          const std::int64_t angles_of = angles.cosines.shape()[0] == 1 ? 0 : b;
          const double c = angles.cosines.at({angles_of, t, k});
          const double s = angles.sines.at({angles_of, t, k});
          const auto at = [&](std::int64_t feature) {
            return static_cast<std::size_t>((b * time + t) * heads * width + feature);
          };
          const double p = x.at({b, t, first}), q = x.at({b, t, second});
          y[at(first)] = c * p - s * q;
          y[at(second)] = s * p + c * q;
        }
  return y;
}

TEST(RotatePairs, EqualsANaiveLoopWithPartialRotationAndAnglesOfEachExample) {
  for (const std::int64_t batch_of_angles : {1, 2}) {
    for (const std::int64_t pairs : {0, 1, 5, 9}) {
      const Array x = random_array({2, 3, 5 * 19}, 1);
      const Angles angles{random_array({batch_of_angles, 3, pairs}, 2),
                          random_array({batch_of_angles, 3, pairs}, 3)};
      for (const bool interleaved : {false, true}) {
        const Var y = rotate_pairs(x, 5, angles.cosines, angles.sines, interleaved);
        expect_near(y.value(), naive(x, 5, angles, interleaved), 1e-14);
      }
    }
  }
}

TEST(RotatePairs, GradientsMatchFiniteDifferences) {
  for (const bool interleaved : {false, true}) {
    const Array cosines = random_array({1, 3, 2}, 2), sines = random_array({1, 3, 2}, 3);
    expect_gradients_match(
        [&](std::span<const Var> x) { return rotate_pairs(x[0], 2, cosines, sines, interleaved); },
        {random_array({2, 3, 2 * 5}, 1)});
  }
}

TEST(RotatePairs, TheGradientTurnsBack) {
  const Angles angles = angles_at({0, 7, 1000}, 6, DType::float64);
  const Array x = random_array({2, 3, 2 * 7}, 1);
  for (const bool interleaved : {false, true}) {
    const auto f = [&](std::span<const Var> v) {
      return rotate_pairs(v[0], 2, angles.cosines, angles.sines, interleaved);
    };
    const std::vector<Var> constant = {x};
    expect_near(gradients_of(f, {x}, f(constant).value())[0], x, 1e-12);
  }
}

TEST(RotatePairs, EmptyArraysStayEmpty) {
  const Var y = rotate_pairs(Array::zeros({0, 3, 4}, DType::float32), 2,
                             Array::zeros({1, 3, 1}, DType::float32),
                             Array::zeros({1, 3, 1}, DType::float32), false);
  EXPECT_EQ(to_string(y.shape()), "[0, 3, 4]");
}

TEST(RotatePairs, RefusesWhatDoesNotFit) {
  const Var x = Array::zeros({2, 3, 10}, DType::float32);
  const auto angles = [](std::int64_t batch, std::int64_t time, std::int64_t pairs) {
    return Array::zeros({batch, time, pairs}, DType::float32);
  };
  expect_throws<ShapeError>(
      [&] { (void)rotate_pairs(x, 3, angles(1, 3, 2), angles(1, 3, 2), false); },
      "rotate_pairs: x [2, 3, 10] does not split into 3 heads, expected [batch, time, heads * "
      "head_dim]");
  expect_throws<ShapeError>(
      [&] { (void)rotate_pairs(x, 2, angles(1, 3, 3), angles(1, 3, 3), false); },
      "rotate_pairs: cosines [1, 3, 3] and sines [1, 3, 3] do not fit x [2, 3, 10] of 2 heads, "
      "expected [1 or batch, time, at most head_dim / 2]");
}

}  // namespace attune::rotate_pairs_test
