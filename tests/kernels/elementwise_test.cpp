#include "kernels/elementwise.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune::kernels::elementwise_test {

constexpr DType kTypes[] = {DType::float32, DType::float64};

// 1, 2, 3, ..: sums of small whole numbers are exact.
Array counting(const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(static_cast<double>(i + 1));
  return Array::from(shape, values, dtype);
}

TEST(AddInto, AddsInPlace) {
  for (const DType dtype : kTypes) {
    Array a = counting({67}, dtype);
    add_into(a, counting({67}, dtype));
    for (std::int64_t i = 0; i < 67; ++i) EXPECT_EQ(a.at({i}), 2.0 * static_cast<double>(i + 1));
  }
}

TEST(AddInto, NamesShapesAndDtypesThatDiffer) {
  Array a = Array::zeros({2, 3}, DType::float32);
  try {
    add_into(a, Array::zeros({3}, DType::float64));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "add_into: float32 [2, 3] += float64 [3], expected equal shapes and dtypes");
  }
}

TEST(AddInto, RefusesSharedStorage) {
  Array a = Array::zeros({3}, DType::float32);
  const Array other = a;
  EXPECT_THROW(add_into(a, Array::zeros({3}, DType::float32)), UsageError);
}

// Adds every element of x at its place in the smaller array, coordinate by coordinate.
std::vector<double> naive_sum_to(const Array& x, const Shape& shape) {
  std::vector<double> sums(static_cast<std::size_t>(shape.size()), 0.0);
  const std::vector<double> values = x.to_vector();
  for (std::int64_t i = 0; i < x.size(); ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    std::int64_t below = 1;
    for (int axis = 1; axis <= x.shape().rank(); ++axis) {
      const std::int64_t coordinate = rest % x.shape()[-axis];
      rest /= x.shape()[-axis];
      if (axis > shape.rank()) continue;
      if (shape[-axis] != 1) at += coordinate * below;
      below *= shape[-axis];
    }
    sums[static_cast<std::size_t>(at)] += values[static_cast<std::size_t>(i)];
  }
  return sums;
}

TEST(SumTo, EqualsANaiveLoopForEachSetOfAxes) {
  const Shape full = {2, 3, 5, 7};
  for (const DType dtype : kTypes) {
    const Array x = counting(full, dtype);
    for (int kept = 0; kept < 16; ++kept) {
      Shape shape = full;
      for (int axis = 0; axis < 4; ++axis) {
        if ((kept >> axis & 1) == 0) shape = shape.with(axis, 1);
      }
      EXPECT_EQ(sum_to(x, shape).shape(), shape);
      EXPECT_EQ(sum_to(x, shape).to_vector(), naive_sum_to(x, shape)) << to_string(shape);
      // The same with fewer axes, where the first are 1.
      for (int rank = 3; rank >= 0 && shape[3 - rank] == 1; --rank) {
        const Shape shorter(shape.extents().last(static_cast<std::size_t>(rank)));
        EXPECT_EQ(sum_to(x, shorter).shape(), shorter);
        EXPECT_EQ(sum_to(x, shorter).to_vector(), naive_sum_to(x, shorter)) << to_string(shorter);
      }
    }
  }
}

TEST(SumTo, HandlesWideRowsAndEmptyArrays) {
  const Array wide = counting({3, 601}, DType::float32);
  EXPECT_EQ(sum_to(wide, {601}).to_vector(), naive_sum_to(wide, {601}));
  EXPECT_EQ(sum_to(wide, {3, 1}).to_vector(), naive_sum_to(wide, {3, 1}));
  EXPECT_EQ(sum_to(Array::zeros({0, 3}, DType::float32), {3}).to_vector(),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(sum_to(Array::zeros({0, 3}, DType::float32), {}).to_vector(), std::vector<double>{0});
}

TEST(SumTo, NamesShapesThatDoNotBroadcast) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  for (const Shape& shape : {Shape{2}, Shape{3, 2, 3}, Shape{4, 3}}) {
    try {
      static_cast<void>(sum_to(x, shape));
      ADD_FAILURE() << to_string(shape);
    } catch (const ShapeError& error) {
      EXPECT_EQ(std::string(error.what()),
                "sum_to: [2, 3] is not broadcast from " + to_string(shape));
    }
  }
}

TEST(SumOfSquares, EqualsANaiveLoop) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t size : {0, 1, 15, 16, 17, 67}) {
      double expected = 0;
      for (std::int64_t i = 1; i <= size; ++i) expected += static_cast<double>(i * i);
      EXPECT_EQ(sum_of_squares(counting({size}, dtype)), expected);
      EXPECT_EQ(sum_all(counting({size}, dtype)), static_cast<double>(size * (size + 1)) / 2);
    }
  }
}

TEST(SumOfSquares, DoesNotOverflowFloats) {
  EXPECT_NEAR(sum_of_squares(Array::full({4}, 1e30, DType::float32)) / 4e60, 1, 1e-6);
}

TEST(AllFinite, FindsNaNAndInfinityAnywhere) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t size : {1, 8, 67, 5003}) {
      const double largest = dtype == DType::float32
                                 ? static_cast<double>(std::numeric_limits<float>::max())
                                 : std::numeric_limits<double>::max();
      Array x = Array::full({size}, -largest, dtype);
      EXPECT_TRUE(all_finite(x));
      for (const std::int64_t place : {std::int64_t{0}, size / 2, size - 1}) {
        for (const double bad :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
              -std::numeric_limits<double>::infinity()}) {
          std::vector<double> values = x.to_vector();
          values[static_cast<std::size_t>(place)] = bad;
          EXPECT_FALSE(all_finite(Array::from({size}, values, dtype))) << size << " at " << place;
        }
      }
    }
  }
  EXPECT_TRUE(all_finite(Array::zeros({0}, DType::float32)));
}

}  // namespace attune::kernels::elementwise_test
