#include "kernels/simd_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

// Measured against the C library in the next wider type: double for float, long double for double.
namespace attune::kernels::simd_math_test {

template <class T>
using Kernel = void (*)(const T* x, T* y, std::int64_t n);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
std::vector<T> apply_kernel(Kernel<T> kernel, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  kernel(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return y;
}

// Largest distance in units of the last place of the reference, over results that are normal
// numbers. Where the reference rounds to an infinity, a NaN or a subnormal, the result must be that
// infinity, NaN, or within the smallest normal number.
template <class T, class Wide>
double worst_ulp(Kernel<T> kernel, Wide (*reference)(Wide), const std::vector<T>& x) {
  const std::vector<T> y = apply_kernel(kernel, x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide exact = reference(static_cast<Wide>(x[i]));
    const T rounded = static_cast<T>(exact);
    double error = std::numeric_limits<double>::infinity();
    if (std::isnan(rounded)) {
      if (std::isnan(y[i])) error = 0;
    } else if (std::isinf(rounded)) {
      if (y[i] == rounded) error = 0;
    } else if (std::abs(exact) < static_cast<Wide>(std::numeric_limits<T>::min())) {
      if (std::abs(y[i] - rounded) <= std::numeric_limits<T>::min()) error = 0;
    } else {
      const Wide unit =
          std::ldexp(Wide(1), std::ilogb(rounded) - std::numeric_limits<T>::digits + 1);
      error = static_cast<double>(std::abs(static_cast<Wide>(y[i]) - exact) / unit);
    }
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

// Every 4999th bit pattern (a prime, so that all low bits and exponents occur): signs, subnormals,
// infinities' neighbours, NaN.
std::vector<float> float_sample() {
  std::vector<float> x = {0.0F, -0.0F, kInfinity, -kInfinity, kNaN};
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4999)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return x;
}

// Evenly over [low, high], and small powers of two of both signs.
std::vector<double> double_sample(double low, double high) {
  std::vector<double> x;
  constexpr int kPoints = 100003;
  for (int i = 0; i <= kPoints; ++i) x.push_back(low + (high - low) * i / kPoints);
  for (int exponent = -300; exponent < 0; exponent += 7) {
    x.push_back(std::ldexp(1.3, exponent));
    if (low < 0) x.push_back(-std::ldexp(1.7, exponent));
  }
  return x;
}

template <class Wide>
Wide sigmoid(Wide x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

TEST(SimdMath, FloatErrorsAgainstDoubleStayWithinTheirBounds) {
  const std::vector<float> x = float_sample();
  EXPECT_LE((worst_ulp<float, double>(exp_into<float>, std::exp, x)), 1.1);
  EXPECT_LE((worst_ulp<float, double>(log_into<float>, std::log, x)), 1.0);
  EXPECT_LE((worst_ulp<float, double>(tanh_into<float>, std::tanh, x)), 1.5);
  EXPECT_LE((worst_ulp<float, double>(erf_into<float>, std::erf, x)), 6.0);
  EXPECT_LE((worst_ulp<float, double>(sigmoid_into<float>, sigmoid<double>, x)), 2.5);
}

TEST(SimdMath, DoubleErrorsAgainstLongDoubleStayWithinTheirBounds) {
  EXPECT_LE((worst_ulp<double, long double>(exp_into<double>, std::exp, double_sample(-708, 709))),
            1.0);
  EXPECT_LE((worst_ulp<double, long double>(log_into<double>, std::log, double_sample(1e-9, 50))),
            1.0);
  EXPECT_LE((worst_ulp<double, long double>(tanh_into<double>, std::tanh, double_sample(-20, 20))),
            1.5);
  EXPECT_LE((worst_ulp<double, long double>(erf_into<double>, std::erf, double_sample(-7, 7))),
            70.0);
  EXPECT_LE((worst_ulp<double, long double>(sigmoid_into<double>, sigmoid<long double>,
                                            double_sample(-700, 50))),
            2.5);
}

template <class T>
void expect_limits() {
  const T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> x = {infinity, -infinity, T(0), std::numeric_limits<T>::max()};
  EXPECT_EQ(apply_kernel<T>(exp_into, x), (std::vector<T>{infinity, 0, 1, infinity}));
  EXPECT_EQ(apply_kernel<T>(tanh_into, x), (std::vector<T>{1, -1, 0, 1}));
  EXPECT_EQ(apply_kernel<T>(erf_into, x), (std::vector<T>{1, -1, 0, 1}));
  EXPECT_EQ(apply_kernel<T>(sigmoid_into, x), (std::vector<T>{1, 0, T(0.5), 1}));
  EXPECT_EQ(apply_kernel<T>(log_into, {infinity, T(0), T(1)}),
            (std::vector<T>{infinity, -infinity, 0}));
  EXPECT_TRUE(std::isnan(apply_kernel<T>(log_into, {T(-1)})[0]));
}

TEST(SimdMath, InfinitiesAndZeroGiveTheLimits) {
  expect_limits<float>();
  expect_limits<double>();
}

template <class T>
void expect_nan_stays() {
  for (Kernel<T> kernel :
       {&exp_into<T>, &log_into<T>, &tanh_into<T>, &erf_into<T>, &sigmoid_into<T>}) {
    const std::vector<T> y =
        apply_kernel(kernel, {T(1), std::numeric_limits<T>::quiet_NaN(), T(2)});
    EXPECT_FALSE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_FALSE(std::isnan(y[2]));
  }
}

TEST(SimdMath, NaNStaysInItsPlace) {
  expect_nan_stays<float>();
  expect_nan_stays<double>();
}

template <class T>
void expect_place_does_not_matter() {
  constexpr std::size_t kCount = 37;
  std::vector<T> x(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    x[i] = static_cast<T>(0.37 * static_cast<double>(i) + 0.01);
  for (Kernel<T> kernel :
       {&exp_into<T>, &log_into<T>, &tanh_into<T>, &erf_into<T>, &sigmoid_into<T>}) {
    const std::vector<T> whole = apply_kernel(kernel, x);
    for (std::size_t begin = 0; begin < kCount; ++begin) {
      for (std::size_t end = begin + 1; end <= kCount; ++end) {
        const std::vector<T> part(x.begin() + static_cast<std::ptrdiff_t>(begin),
                                  x.begin() + static_cast<std::ptrdiff_t>(end));
        const std::vector<T> expected(whole.begin() + static_cast<std::ptrdiff_t>(begin),
                                      whole.begin() + static_cast<std::ptrdiff_t>(end));
        ASSERT_EQ(apply_kernel(kernel, part), expected) << begin << " to " << end;
      }
    }
  }
}

TEST(SimdMath, AResultDoesNotDependOnItsPlace) {
  expect_place_does_not_matter<float>();
  expect_place_does_not_matter<double>();
}

TEST(SimdMath, WritesInPlaceAndNothingBeyondTheEnd) {
  for (std::size_t n = 0; n <= 19; ++n) {
    std::vector<float> values(n + 1, 0.5F);
    exp_into(values.data(), values.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(values[i], std::exp(0.5), 1e-6);
    EXPECT_EQ(values[n], 0.5F);
  }
}

}  // namespace attune::kernels::simd_math_test
