#include "attune/ops/softmax.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "ops/op_test.h"

namespace attune::softmax_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// e^x_j / sum over the kept of e^x_k, row by row in double, without any shift.
std::vector<double> naive_softmax(const Array& x, const std::vector<double>& keep = {}) {
  std::vector<double> y = x.to_vector();
  const auto n = static_cast<std::size_t>(x.shape().last());
  for (std::size_t begin = 0; begin < y.size(); begin += n) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + n; ++i) {
      y[i] = keep.empty() || keep[i] != 0 ? std::exp(y[i]) : 0;
      sum += y[i];
    }
    for (std::size_t i = begin; i < begin + n; ++i) y[i] = sum == 0 ? 0 : y[i] / sum;
  }
  return y;
}

Array backward_of_sum(const std::function<Var(const Var&)>& f, const Array& x, const Array& seed) {
  Tape tape;
  const Var leaf = tape.leaf(x);
  return tape.backward(f(leaf), seed)[leaf];
}

TEST(Softmax, EqualsANaiveLoopForEveryTailLength) {
  for (std::int64_t n = 1; n <= 41; ++n) {
    const Array x = random_array({2, 3, n}, 7, DType::float64, -3, 3);
    expect_near(softmax(x).value(), naive_softmax(x), 1e-14);
    expect_near(softmax(x.cast(DType::float32)).value(), naive_softmax(x), 1e-6);
    EXPECT_EQ(softmax(x).shape(), x.shape());
  }
}

TEST(Softmax, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{1}, Shape{5}, Shape{3, 7}, Shape{2, 3, 11}, Shape{2, 37}}) {
    expect_gradients_match([](std::span<const Var> in) { return softmax(in[0]); },
                           {random_array(shape, 3, DType::float64, -2, 2)});
  }
}

TEST(Softmax, RowsSumToOneForLargeScores) {  // B19
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array y = softmax(Array::from({3, 2}, {1000, 0, -1e4, -1e4, 1e30, -1e30}, dtype)).value();
    expect_near(y, std::vector<double>{1, 0, 0.5, 0.5, 1, 0}, 0);
  }
}

TEST(Softmax, ARowOfMinusInfinityGivesZerosAndNoGradient) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = Array::from({2, 2}, {-kInfinity, -kInfinity, -kInfinity, 1}, dtype);
    expect_near(softmax(x).value(), std::vector<double>{0, 0, 0, 1}, 0);
    const Array dx = backward_of_sum(softmax, x, Array::from({2, 2}, {3, 5, 7, 11}, dtype));
    expect_near(dx, std::vector<double>{0, 0, 0, 0}, 0);
  }
}

TEST(Softmax, NaNStaysInItsRow) {
  const Array x = Array::from({2, 3}, {1, kNaN, -kInfinity, 2, 2, 2}, DType::float32);
  const std::vector<double> y = softmax(x).value().to_vector();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_NEAR(y[3], 1.0 / 3, 1e-7);
  EXPECT_TRUE(std::isnan(softmax(Array::from({2}, {kNaN, -kInfinity})).value().at({0})));
}

TEST(Softmax, TakesEmptyArraysAndRefusesScalars) {
  EXPECT_EQ(softmax(Array::zeros({0, 3}, DType::float32)).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(Array::zeros({3, 0}, DType::float32)).shape(), (Shape{3, 0}));
  try {
    (void)softmax(Array::scalar(1, DType::float32));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "softmax: x [] is a scalar, it needs at least one axis");
  }
}

TEST(Softmax, AConstantIsNotRecorded) {
  EXPECT_EQ(softmax(Array::zeros({2, 3}, DType::float32)).tape(), nullptr);
}

// 0 or 1 with two zeros in three, broadcast by a naive index loop to `shape`.
Array some_keys(const Shape& shape, DType dtype) {
  std::vector<double> keep(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = (i * 7 + 3) % 5 < 3 ? 1 : 0;
  return Array::from(shape, keep, dtype);
}
std::vector<double> broadcast_naively(const Array& keep, const Shape& shape) {
  std::vector<double> result;
  const std::vector<double> values = keep.to_vector();
  for (std::int64_t flat = 0; flat < shape.size(); ++flat) {
    std::int64_t rest = flat;
    std::int64_t offset = 0;
    std::int64_t stride = 1;
    for (int axis = 1; axis <= shape.rank(); ++axis) {
      const std::int64_t index = rest % shape[-axis];
      rest /= shape[-axis];
      if (axis > keep.shape().rank()) continue;
      if (keep.shape()[-axis] != 1) offset += index * stride;
      stride *= keep.shape()[-axis];
    }
    result.push_back(values[static_cast<std::size_t>(offset)]);
  }
  return result;
}

TEST(MaskedSoftmax, EqualsANaiveLoopOverAllBroadcasts) {
  const Array x = random_array({2, 3, 5, 11}, 5, DType::float64, -3, 3);
  for (const Shape& shape :
       {Shape{2, 3, 5, 11}, Shape{5, 11}, Shape{11}, Shape{2, 1, 1, 11}, Shape{2, 1, 5, 11},
        Shape{3, 1, 11}, Shape{1}, Shape{}, Shape{2, 3, 5, 1}, Shape{1, 3, 1, 1}}) {
    const Array keep = some_keys(shape, DType::float64);
    const std::vector<double> expected = naive_softmax(x, broadcast_naively(keep, x.shape()));
    expect_near(masked_softmax(x, keep).value(), expected, 1e-14);
    // A mask of another dtype than x is taken as well.
    expect_near(masked_softmax(x.cast(DType::float32), keep).value(), expected, 1e-6);
  }
}

TEST(MaskedSoftmax, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{3, 4, 13}, Shape{4, 1}, Shape{13}}) {
    const Array keep = some_keys(shape, DType::float64);
    expect_gradients_match([keep](std::span<const Var> in) { return masked_softmax(in[0], keep); },
                           {random_array({3, 4, 13}, 11, DType::float64, -2, 2)});
  }
}

TEST(MaskedSoftmax, WhatIsNotKeptMayHoldAnything) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = Array::from({2, 3}, {1, kNaN, 1, kInfinity, 2, -kInfinity}, dtype);
    const Array keep = Array::from({2, 3}, {1, 0, 1, 0, 1, 0}, dtype);
    const auto f = [&](const Var& v) { return masked_softmax(v, keep); };
    expect_near(f(x).value(), std::vector<double>{0.5, 0, 0.5, 0, 1, 0}, 0);
    // p (dy - sum p dy), by hand: the row sum is 3, what is masked is skipped.
    const Array seed = Array::from({2, 3}, {2, kNaN, 4, kNaN, 5, kInfinity}, dtype);
    expect_near(backward_of_sum(f, x, seed), std::vector<double>{-0.5, 0, 0.5, 0, 0, 0}, 1e-7);
  }
}

TEST(MaskedSoftmax, ARowThatKeepsNothingGivesZerosAndNoGradient) {
  const Array x = Array::from({2, 2}, {5, kNaN, 1, 1});
  const Array keep = Array::from({2, 1}, {0, 1});
  const auto f = [&](const Var& v) { return masked_softmax(v, keep); };
  expect_near(f(x).value(), std::vector<double>{0, 0, 0.5, 0.5}, 0);
  const Array dx = backward_of_sum(f, x, Array::from({2, 2}, {kNaN, 1, 2, 1}));
  expect_near(dx, std::vector<double>{0, 0, 0.25, -0.25}, 1e-7);
}

TEST(MaskedSoftmax, AKeptNaNDoesNotReachMaskedKeys) {
  const Array x = Array::from({3}, {1, kNaN, 1});
  const std::vector<double> y = masked_softmax(x, Array::from({3}, {1, 1, 0})).value().to_vector();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
}

TEST(MaskedSoftmax, RefusesAMaskThatDoesNotBroadcast) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  for (const Shape& shape : {Shape{2}, Shape{3, 3}, Shape{1, 2, 3}}) {
    try {
      (void)masked_softmax(x, Array::zeros(shape, DType::float32));
      FAIL();
    } catch (const ShapeError& error) {
      EXPECT_EQ(error.what(),
                "masked_softmax: keep " + to_string(shape) + " does not broadcast to x [2, 3]");
    }
  }
}

TEST(LogSoftmax, EqualsTheLogarithmOfANaiveSoftmax) {
  for (std::int64_t n : {1, 2, 7, 8, 13, 37}) {
    const Array x = random_array({3, n}, 2, DType::float64, -4, 4);
    std::vector<double> expected = naive_softmax(x);
    for (double& value : expected) value = std::log(value);
    expect_near(log_softmax(x).value(), expected, 1e-13);
    expect_near(log_softmax(x.cast(DType::float32)).value(), expected, 3e-6);
  }
}

TEST(LogSoftmax, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : {Shape{1}, Shape{5}, Shape{3, 7}, Shape{2, 3, 11}, Shape{2, 37}}) {
    expect_gradients_match([](std::span<const Var> in) { return log_softmax(in[0]); },
                           {random_array(shape, 3, DType::float64, -2, 2)});
  }
}

TEST(LogSoftmax, KeepsTheDifferenceOfLargeScores) {
  expect_near(log_softmax(Array::from({2}, {1000, 0})).value(), std::vector<double>{0, -1000}, 0);
}

TEST(LogSoftmax, ARowOfMinusInfinityHasNoGradient) {
  const Array x = Array::from({2, 2}, {-kInfinity, -kInfinity, -kInfinity, 1});
  EXPECT_EQ(log_softmax(x).value().to_vector(),
            (std::vector<double>{-kInfinity, -kInfinity, -kInfinity, 0}));
  const Array dx = backward_of_sum(log_softmax, x, Array::from({2, 2}, {3, 5, 0, 11}));
  expect_near(dx, std::vector<double>{0, 0, 0, 0}, 0);
}

}  // namespace attune::softmax_test
