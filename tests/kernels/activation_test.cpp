#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attune/array/array.h"
#include "kernels/unary.h"

// Errors of the activations against their formulas in the next wider type, double for float32 and
// long double for float64. Values in units of their last place, however small they are; slopes pass
// through zero and are measured in units of epsilon.
namespace attune::kernels::activation_test {

template <class Wide>
struct Reference {
  Wide value;
  Wide slope;
};

template <class Wide>
Reference<Wide> exact_gelu(Wide x) {
  const Wide distribution = std::erfc(-x / std::sqrt(Wide(2))) / 2;
  const Wide density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(Wide(-1)));
  return {x * distribution, distribution + x * density};
}

// The sigmoid without cancellation on either side.
template <class Wide>
Wide sigmoid(Wide x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

template <class Wide>
Reference<Wide> exact_gelu_tanh(Wide x) {
  const Wide root = std::sqrt(2 / std::acos(Wide(-1)));
  const Wide factor = Wide(44715) / 1000000;
  const Wide s = sigmoid(2 * root * (x + factor * x * x * x));
  const Wide rest = sigmoid(-2 * root * (x + factor * x * x * x));
  return {x * s, s + x * s * rest * 2 * root * (1 + 3 * factor * x * x)};
}

template <class Wide>
Reference<Wide> exact_silu(Wide x) {
  return {x * sigmoid(x), sigmoid(x) + x * sigmoid(x) * sigmoid(-x)};
}

template <class Wide>
Reference<Wide> exact_softplus(Wide x) {
  return {std::max(x, Wide(0)) + std::log1p(std::exp(-std::abs(x))), sigmoid(x)};
}

struct Errors {
  double value_ulp = 0;
  double slope_epsilons = 0;
};

// Over evenly spaced points of [low, high] and small ones of either sign. A value below the normal
// numbers counts as right within the smallest of them.
template <class T, class Wide>
Errors errors_of(ValueAndSlope (*function)(Array), Reference<Wide> (*exact)(Wide), double low,
                 double high) {
  std::vector<double> points;
  constexpr int kPoints = 200003;
  for (int i = 0; i <= kPoints; ++i) points.push_back(low + (high - low) * i / kPoints);
  for (int exponent = -100; exponent < 0; ++exponent) {
    points.push_back(std::ldexp(1.3, exponent));
    points.push_back(-std::ldexp(1.7, exponent));
  }
  const Array x = Array::from({static_cast<std::int64_t>(points.size())}, points, dtype_of<T>);
  const ValueAndSlope result = function(x);
  Errors worst;
  const auto value = result.value.data<T>(), slope = result.slope.data<T>();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Reference<Wide> wanted = exact(static_cast<Wide>(x.data<T>()[i]));
    const Wide error = std::abs(static_cast<Wide>(value[i]) - wanted.value);
    const int exponent =
        std::max(std::ilogb(wanted.value), std::numeric_limits<T>::min_exponent - 1);
    const Wide unit = std::ldexp(Wide(1), exponent - std::numeric_limits<T>::digits + 1);
    const bool is_tiny = std::abs(wanted.value) < std::numeric_limits<T>::min();
    if (!is_tiny || error > std::numeric_limits<T>::min()) {
      worst.value_ulp = std::max(worst.value_ulp, static_cast<double>(error / unit));
    }
    const Wide slope_error = std::abs(static_cast<Wide>(slope[i]) - wanted.slope);
    worst.slope_epsilons = std::max(
        worst.slope_epsilons, static_cast<double>(slope_error / std::numeric_limits<T>::epsilon()));
  }
  return worst;
}

template <class T, class Wide>
struct Bound {
  const char* name;
  ValueAndSlope (*function)(Array);
  Reference<Wide> (*exact)(Wide);
  double low, high;
  double value_ulp, slope_epsilons;
};

template <class T, class Wide>
void expect_within(std::initializer_list<Bound<T, Wide>> bounds) {
  for (const Bound<T, Wide>& bound : bounds) {
    const Errors errors = errors_of<T>(bound.function, bound.exact, bound.low, bound.high);
    EXPECT_LE(errors.value_ulp, bound.value_ulp) << bound.name << " from " << bound.low;
    EXPECT_LE(errors.slope_epsilons, bound.slope_epsilons) << bound.name << " from " << bound.low;
  }
}

// In the left tails of both gelu the exponent grows with x^2, and its rounding is a relative error
// of a value that is next to nothing; double gelu has erfc of xsimd, whose tail is worse still.
TEST(Activations, FloatErrorsStayWithinTheirBounds) {
  expect_within<float, double>({
      {"gelu", gelu_with_slope, exact_gelu, -3, 30, 8, 2},
      {"gelu", gelu_with_slope, exact_gelu, -12, -3, 100, 2},
      {"gelu_tanh", gelu_tanh_with_slope, exact_gelu_tanh, -3, 30, 20, 20},
      {"gelu_tanh", gelu_tanh_with_slope, exact_gelu_tanh, -9, -3, 200, 2},
      {"silu", silu_with_slope, exact_silu, -80, 80, 3.5, 10},
      {"softplus", softplus_with_slope, exact_softplus, -80, 80, 2, 2},
  });
}

TEST(Activations, DoubleErrorsStayWithinTheirBounds) {
  expect_within<double, long double>({
      {"gelu", gelu_with_slope, exact_gelu, -3, 30, 35, 20},
      {"gelu", gelu_with_slope, exact_gelu, -9, -3, 5e4, 20},
      {"gelu_tanh", gelu_tanh_with_slope, exact_gelu_tanh, -3, 30, 20, 50},
      {"gelu_tanh", gelu_tanh_with_slope, exact_gelu_tanh, -9, -3, 200, 2},
      {"silu", silu_with_slope, exact_silu, -700, 700, 3, 20},
      {"softplus", softplus_with_slope, exact_softplus, -700, 700, 2, 2},
  });
}

template <class T>
void expect_special_values() {
  const double infinity = std::numeric_limits<double>::infinity();
  const double large = static_cast<double>(static_cast<T>(1e18));  // squares are still finite
  const double least = static_cast<double>(std::numeric_limits<T>::denorm_min());
  const Array x =
      Array::from({7}, {0, -0.0, large, -large, least, infinity, -infinity}, dtype_of<T>);
  for (const auto& function : {gelu_with_slope, gelu_tanh_with_slope, silu_with_slope}) {
    const ValueAndSlope both = function(x);
    const std::vector<double> value = both.value.to_vector(), slope = both.slope.to_vector();
    EXPECT_EQ(value[0], 0);
    EXPECT_EQ(value[1], 0);
    EXPECT_TRUE(std::signbit(value[1]));
    EXPECT_EQ(value[2], large);
    EXPECT_EQ(value[3], 0);
    EXPECT_LE(std::abs(value[4]), least);
    EXPECT_EQ(value[5], infinity);
    EXPECT_TRUE(std::isnan(value[6])) << "-inf times 0";
    EXPECT_EQ(slope[0], 0.5);
    EXPECT_EQ(slope[1], 0.5);
    EXPECT_EQ(slope[2], 1);
    EXPECT_EQ(slope[3], 0);
  }
}

TEST(Activations, ZerosAndLargeNumbersGiveTheLimitsAndMinusInfinityNaN) {
  expect_special_values<float>();
  expect_special_values<double>();
}

template <class T>
void expect_nan_stays() {
  const Array x = Array::from({3}, {1, std::numeric_limits<double>::quiet_NaN(), 2}, dtype_of<T>);
  for (const auto& function :
       {gelu_with_slope, gelu_tanh_with_slope, silu_with_slope, softplus_with_slope}) {
    const ValueAndSlope both = function(x);
    for (const Array& array : {both.value, both.slope}) {
      const std::vector<double> values = array.to_vector();
      EXPECT_FALSE(std::isnan(values[0]));
      EXPECT_TRUE(std::isnan(values[1]));
      EXPECT_FALSE(std::isnan(values[2]));
    }
  }
}

TEST(Activations, NaNStaysInItsPlace) {
  expect_nan_stays<float>();
  expect_nan_stays<double>();
}

TEST(Activations, WriteOverTheirArgumentUnlessSomebodyHoldsIt) {
  for (const auto& function : {relu, gelu, gelu_tanh, silu, softplus}) {
    Array x = Array::from({3}, {-1, 0.5, 2}, DType::float32);
    const float* place = x.data<float>().data();
    const Array kept = function(x);
    EXPECT_NE(kept.data<float>().data(), place);
    EXPECT_EQ(x.to_vector(), (std::vector<double>{-1, 0.5, 2}));
    const Array reused = function(std::move(x));
    EXPECT_EQ(reused.data<float>().data(), place);
    EXPECT_EQ(reused.to_vector(), kept.to_vector());
  }
}

}  // namespace attune::kernels::activation_test
