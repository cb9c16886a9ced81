#include "attune/array/xtensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>
#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xpad.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"

// What people do with xtensor over values and gradients. Expected values are computed by hand or by
// plain loops.
namespace attune::xtensor_test {

TEST(Xtensor, AViewReadsTheArrayInPlace) {
  const Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto seen = view<float>(array);
  EXPECT_EQ(seen.dimension(), 2u);
  EXPECT_EQ(seen.shape()[1], 3u);
  EXPECT_EQ(seen(1, 0), 4.0f);
  EXPECT_EQ(seen.data(), array.data<float>().data());
  EXPECT_EQ(xt::amax(seen)(), 6.0f);
}

TEST(Xtensor, AScalarIsAViewOfRankZero) {
  const Array scalar = Array::scalar(2.5, DType::float64);
  EXPECT_EQ(view<double>(scalar).dimension(), 0u);
  EXPECT_EQ(view<double>(scalar)(), 2.5);
}

TEST(Xtensor, AMutableViewWritesTheArrayAndIsRefusedWhileItIsShared) {
  Array array = Array::zeros({2, 2}, DType::float32);
  mutable_view<float>(array)(1, 0) = 3.0f;
  EXPECT_EQ(array.to_vector(), (std::vector<double>{0, 0, 3, 0}));
  const Array copy = array;
  EXPECT_THROW((void)mutable_view<float>(array), UsageError);
}

TEST(Xtensor, AnArrayIsMadeOfAnExpression) {
  const Array x = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  const Array row = Array::from({3}, {10, 20, 30});
  const Array y = array_from<float>(2.0f * view<float>(x) + view<float>(row));
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.to_vector(), (std::vector<double>{12, 24, 36, 18, 30, 42}));
  const Array transposed = array_from<double>(xt::transpose(view<float>(x)));
  EXPECT_EQ(transposed.shape(), (Shape{3, 2}));
  EXPECT_EQ(transposed.dtype(), DType::float64);
  EXPECT_EQ(transposed.to_vector(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(array_from<float>(xt::sum(view<float>(x))).item(), 21);
}

// First bug of xtensor 0.24 that the bridge repairs: under g++ in C++20 a temporary of dynamic rank
// became one of rank four, so that pad() summed to 0 and eval() wrote out of bounds.
TEST(Xtensor, TemporariesOfDynamicRankKeepTheirRank) {
  const xt::xarray<float> x = {{1, 2, 3}, {4, 5, 6}};
  const auto doubled = xt::eval(x + x);
  static_assert(std::is_same_v<std::decay_t<decltype(doubled)>, xt::xarray<float>>);
  ASSERT_EQ(doubled.dimension(), 2u);
  EXPECT_EQ(doubled(1, 2), 12.0f);
  const xt::xarray<float> sums = xt::sum(x, {1}, xt::evaluation_strategy::immediate);
  ASSERT_EQ(sums.dimension(), 1u);
  EXPECT_EQ(sums(0), 6.0f);
  EXPECT_EQ(sums(1), 15.0f);
  const xt::xarray<float> transposed = xt::eval(xt::transpose(x));
  ASSERT_EQ(transposed.shape()[0], 3u);
  EXPECT_EQ(transposed(2, 1), 6.0f);
  EXPECT_EQ(xt::sum(xt::pad(x, 1))(), 21.0f);
  // Squares of 1.5, 0.5 and so on from the mean 3.5: 17.5 / 6.
  EXPECT_NEAR(xt::variance(x)(), 17.5 / 6, 1e-6);
}

TEST(Xtensor, TheSameHoldsOverAView) {
  const Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto evaluated = xt::eval(view<float>(array) + view<float>(array));
  ASSERT_EQ(evaluated.dimension(), 2u);
  EXPECT_EQ(evaluated(1, 2), 12.0f);
  EXPECT_EQ(xt::sum(xt::pad(xt::xarray<float>(view<float>(array)), 1))(), 21.0f);
}

// Second bug: a lazy keep_dims reducer inside a larger expression is read out of bounds. The right
// way is to evaluate the reducer first.
TEST(Xtensor, SoftmaxWithEvaluatedReducersEqualsALoop) {
  const Array scores = Array::from({2, 3}, {1, 2, 3, 4, 5, 7});
  const auto x = view<float>(scores);
  const xt::xarray<float> largest = xt::amax(x, {1}, xt::keep_dims);
  const xt::xarray<float> weights = xt::exp(x - largest);
  const xt::xarray<float> sums = xt::sum(weights, {1}, xt::keep_dims);
  const Array softmax = array_from<float>(weights / sums);
  for (std::int64_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::int64_t key = 0; key < 3; ++key) sum += std::exp(scores.at({row, key}));
    for (std::int64_t key = 0; key < 3; ++key) {
      EXPECT_NEAR(softmax.at({row, key}), std::exp(scores.at({row, key})) / sum, 1e-6);
    }
  }
}

// array_from takes what xtensor gives it: the reducer evaluated inside the expression is right,
// too.
TEST(Xtensor, AnImmediateReducerMayStandInsideAnExpression) {
  const Array x = Array::from({2, 3}, {1, 2, 3, 4, 5, 6}, DType::float64);
  const Array shares = array_from<double>(
      view<double>(x) /
      xt::sum(view<double>(x), {1}, xt::keep_dims | xt::evaluation_strategy::immediate));
  const std::vector<double> expected = {1.0 / 6, 2.0 / 6, 3.0 / 6, 4.0 / 15, 5.0 / 15, 6.0 / 15};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(shares.to_vector()[i], expected[i], 1e-12) << i;
  }
}

// ln(e^0 + e^0) = 0.693147, from operands that are gone when the result is read.
TEST(Xtensor, AnArrayOfAnExpressionDoesNotReferToItsOperands) {  // B48
  const auto log_sum_exp = [](const xt::xarray<double>& x) {
    return array_from<double>(xt::log(xt::sum(xt::exp(x + 0.0), {0})));
  };
  const Array first = log_sum_exp({0.0, 0.0});
  const Array second = log_sum_exp({1.0, 2.0, 3.0});
  EXPECT_NEAR(first.item(), 0.693147, 1e-6);
  EXPECT_NEAR(second.item(), std::log(std::exp(1) + std::exp(2) + std::exp(3)), 1e-12);
}

Array gradient_of_sum_of_products(const Array& factors) {
  Tape tape;
  const Var x = tape.leaf(Array::zeros(factors.shape(), factors.dtype()));
  const Var y = record("weighted_sum", {x}, Array::scalar(0, factors.dtype()),
                       [factors](const Array&, InputGradients& dx) { dx.add(0, factors); });
  return tape.backward(y)[x];
}

// A = diag(3, 2) padded by a zero column, rotated: singular values 3 and 2 whatever the rotation.
TEST(Xtensor, SingularValuesOfAGradient) {
  const double c = std::cos(0.7);
  const double s = std::sin(0.7);
  const Array gradient = gradient_of_sum_of_products(
      Array::from({2, 3}, {3 * c, -2 * s, 0, 3 * s, 2 * c, 0}, DType::float64));
  const auto [u, singular, v] = xt::linalg::svd(xt::xarray<double>(view<double>(gradient)), false);
  ASSERT_EQ(singular.size(), 2u);
  EXPECT_NEAR(singular(0), 3, 1e-12);
  EXPECT_NEAR(singular(1), 2, 1e-12);
}

// A symmetric 2x2 matrix of trace 5 and determinant 4: eigenvalues 1 and 4.
TEST(Xtensor, EigenvaluesOfAnArray) {
  const Array matrix = Array::from({2, 2}, {2, std::sqrt(2.0), std::sqrt(2.0), 3}, DType::float64);
  const xt::xarray<double> values = xt::linalg::eigvalsh(xt::xarray<double>(view<double>(matrix)));
  EXPECT_NEAR(values(0), 1, 1e-12);
  EXPECT_NEAR(values(1), 4, 1e-12);
}

TEST(Xtensor, MatrixTimesItsTranspose) {  // B49
  const Array array = Array::from({2, 3}, {1, 2, 3, 4, 5, 6}, DType::float64);
  const xt::xarray<double> x = view<double>(array);
  const xt::xarray<double> product = xt::linalg::dot(xt::transpose(x), x);
  EXPECT_EQ(array_from<double>(product).to_vector(),
            (std::vector<double>{17, 22, 27, 22, 29, 36, 27, 36, 45}));
}

// 1 * 6 + 3 * 4 + 5 * 2: columns, one of them reversed, evaluated before they meet BLAS.
TEST(Xtensor, DotOfAColumnAndAReversedColumn) {  // B49
  const Array array = Array::from({3, 2}, {1, 2, 3, 4, 5, 6}, DType::float64);
  const auto m = view<double>(array);
  const xt::xarray<double> forward = xt::view(m, xt::all(), 0);
  const xt::xarray<double> reversed =
      xt::view(m, xt::range(xt::placeholders::_, xt::placeholders::_, -1), 1);
  EXPECT_EQ(xt::linalg::dot(forward, reversed)(), 28.0);
}

TEST(Xtensor, ATransposeMayBeAssignedToItself) {  // B49
  xt::xarray<float> x = {{5, 6, 7, 8}};
  x = xt::transpose(x);
  const Array column = array_from<float>(x);
  EXPECT_EQ(column.shape(), (Shape{4, 1}));
  EXPECT_EQ(column.to_vector(), (std::vector<double>{5, 6, 7, 8}));
}

// Rows and columns of one, and a slice of three dimensions, against a triple loop.
TEST(Xtensor, ProductsOfSlicesEqualALoop) {  // B49
  for (std::int64_t n = 1; n <= 9; ++n) {
    Array a = Array::uninitialized({2, n, 3}, DType::float64);
    Array b = Array::uninitialized({2, 3, n}, DType::float64);
    double value = 0;
    for (double& element : a.mutable_data<double>()) element = std::sin(++value);
    for (double& element : b.mutable_data<double>()) element = std::sin(++value);
    const xt::xarray<double> product =
        xt::linalg::dot(xt::view(view<double>(a), 1, xt::all(), xt::all()),
                        xt::view(view<double>(b), 1, xt::all(), xt::all()));
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < 3; ++k) sum += a.at({1, i, k}) * b.at({1, k, j});
        ASSERT_NEAR(product(static_cast<std::size_t>(i), static_cast<std::size_t>(j)), sum, 1e-13);
      }
    }
  }
}

}  // namespace attune::xtensor_test
