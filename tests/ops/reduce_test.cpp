#include "attune/ops/reduce.h"

#include <limits>
#include <numeric>

#include "attune/ops/arithmetic.h"
#include "ops/op_test.h"

namespace attune::reduce_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Row = std::vector<double>;

// f over every line of x along an axis, in row-major order of the other axes.
Row along(const Array& x, int axis, const std::function<double(const Row&)>& f) {
  const Row values = x.to_vector();
  const auto at = x.shape().normalized(axis);
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < x.shape().extents().size(); ++i) {
    if (i < at) outer *= x.shape().extents()[i];
    if (i > at) inner *= x.shape().extents()[i];
  }
  Row result;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      Row line;
      for (std::int64_t e = 0; e < x.shape()[axis]; ++e) {
        line.push_back(values[static_cast<std::size_t>((o * x.shape()[axis] + e) * inner + i)]);
      }
      result.push_back(f(line));
    }
  }
  return result;
}

double total(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0); }

struct Reduction {
  const char* name;
  Var (*apply)(const Var&, int, bool);
  double (*line)(const Row&);
  bool empty_axis = true;  // defined there
};

const Reduction kReductions[] = {
    {"sum", sum, total},
    {"mean", mean,
     [](const Row& row) { return row.empty() ? 0 : total(row) / static_cast<double>(row.size()); }},
    {"max", max, [](const Row& row) { return *std::max_element(row.begin(), row.end()); }, false},
    {"logsumexp", logsumexp,
     [](const Row& row) {
       double sum = 0;
       for (const double value : row) sum += std::exp(value);
       return std::log(sum);
     }},
};

const Shape kShapes[] = {{1},       {5},    {3, 5}, {2, 3, 5}, {2, 3, 1},
                         {7, 1, 2}, {0, 3}, {3, 0}, {2, 67},   {67, 3}};

template <class F>
void for_each_case(F visit) {
  for (const Reduction& reduction : kReductions) {
    for (const Shape& shape : kShapes) {
      for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
        if (shape[axis] == 0 && !reduction.empty_axis) continue;
        SCOPED_TRACE(reduction.name + to_string(shape) + " axis " + std::to_string(axis));
        visit(reduction, shape, axis);
      }
    }
  }
}

TEST(Reduce, EqualsANaiveLoopOverEachAxis) {
  for_each_case([](const Reduction& reduction, const Shape& shape, int axis) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      const Array x = random_array(shape, 1, dtype);
      const Row expected = along(x, axis, reduction.line);
      const double tolerance = dtype == DType::float32 ? 1e-6 : 1e-14;
      const Array kept = reduction.apply(x, axis, true).value();
      EXPECT_EQ(kept.shape(), shape.with(axis, 1));
      expect_near(kept, expected, tolerance);
      const Array dropped = reduction.apply(x, axis, false).value();
      EXPECT_EQ(dropped.shape().rank(), shape.rank() - 1);
      expect_near(dropped, expected, tolerance);
    }
  });
}

TEST(Reduce, DroppedAxisLeavesTheOthersInOrder) {
  const Array x = Array::zeros({2, 3, 5}, DType::float32);
  EXPECT_EQ(sum(x, 0).shape(), (Shape{3, 5}));
  EXPECT_EQ(sum(x, 1).shape(), (Shape{2, 5}));
  EXPECT_EQ(sum(x, -1).shape(), (Shape{2, 3}));
}

TEST(Reduce, GradientsMatchOverEachAxis) {
  for_each_case([](const Reduction& reduction, const Shape& shape, int axis) {
    for (const bool keep : {false, true}) {
      expect_gradients_match(
          [&](std::span<const Var> x) { return reduction.apply(x[0], axis, keep); },
          {random_array(shape, 2)});
    }
  });
}

TEST(Reduce, OverAllElements) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const Array x = random_array(shape, 3);
    const double expected = total(x.to_vector());
    EXPECT_EQ(sum(x).shape(), Shape{});
    EXPECT_NEAR(sum(x).value().item(), expected, 1e-13);
    const double count = static_cast<double>(std::max<std::int64_t>(shape.size(), 1));
    EXPECT_NEAR(mean(x).value().item(), expected / count, 1e-13);
    expect_gradients_match([](std::span<const Var> v) { return sum(v[0]); }, {x});
    expect_gradients_match([](std::span<const Var> v) { return mean(v[0]) * 3.0; }, {x});
  }
  EXPECT_EQ(sum(Array::scalar(3, DType::float32)).value().item(), 3);
}

TEST(Reduce, SumOfManyFloatsKeepsItsPrecision) {
  // Accumulated in float32, 2^25 ones add up to 2^24.
  const std::int64_t count = std::int64_t{1} << 25;
  const Array ones = Array::full({count}, 1, DType::float32);
  EXPECT_EQ(sum(ones).value().item(), static_cast<double>(count));
  EXPECT_EQ(mean(ones).value().item(), 1);
  EXPECT_EQ(sum(ones, 0).value().item(), static_cast<double>(count));
  EXPECT_EQ(sum(Var(ones.reshaped({count / 2, 2})), 0).value().at({1}),
            static_cast<double>(count / 2));
}

TEST(Max, GradientGoesToTheFirstOfTheLargest) {
  const auto gradients = gradients_of([](std::span<const Var> x) { return max(x[0], -1); },
                                      {Array::from({2, 4}, {1, 3, 3, 2, -1, -1, -1, -1})});
  expect_near(gradients[0], {0, 1, 0, 0, 1, 0, 0, 0});
}

TEST(Max, NaNPropagatesAndTakesTheGradient) {
  for (const int axis : {0, 1}) {
    const Array x = Array::from(axis == 0 ? Shape{3, 1} : Shape{1, 3}, {1, kNaN, 2});
    EXPECT_TRUE(std::isnan(max(x, axis).value().item()));
    const auto gradients =
        gradients_of([&](std::span<const Var> v) { return max(v[0], axis); }, {x});
    expect_near(gradients[0], {0, 1, 0});
  }
}

TEST(Max, OfMinusInfinitiesIsMinusInfinity) {
  EXPECT_EQ(max(Array::from({2}, {-kInfinity, -kInfinity}), 0).value().item(), -kInfinity);
}

TEST(Cumsum, EqualsANaiveLoopOverEachAxis) {
  for (const Shape& shape : kShapes) {
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(to_string(shape) + " axis " + std::to_string(axis));
        const Array x = random_array(shape, 4);
        const Array y = cumsum(x, axis, reverse).value();
        ASSERT_EQ(y.shape(), shape);
        for (std::int64_t i = 0; i < shape[axis]; ++i) {
          // Element i of every line is the sum of the line up to there.
          const Row expected = along(x, axis, [&](const Row& line) {
            const auto middle = line.begin() + i;
            return reverse ? total(Row(middle, line.end())) : total(Row(line.begin(), middle + 1));
          });
          const Row actual =
              along(y, axis, [&](const Row& line) { return line[static_cast<std::size_t>(i)]; });
          ASSERT_EQ(actual.size(), expected.size());
          for (std::size_t j = 0; j < actual.size(); ++j)
            EXPECT_NEAR(actual[j], expected[j], 1e-13);
        }
      }
    }
  }
}

TEST(Cumsum, GradientsMatch) {
  for (const Shape& shape : kShapes) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      for (const bool reverse : {false, true}) {
        expect_gradients_match([&](std::span<const Var> x) { return cumsum(x[0], axis, reverse); },
                               {random_array(shape, 5)});
      }
    }
  }
}

TEST(Logsumexp, DoesNotOverflow) {  // B19
  const Array x = Array::from({3, 2}, {1000, 1000, -1000, -1000, 0, -kInfinity});
  expect_near(logsumexp(x, 1).value(), {1000 + std::log(2), -1000 + std::log(2), 0});
}

TEST(Logsumexp, OfMinusInfinitiesIsMinusInfinityWithGradientZero) {  // B19
  const Array x = Array::from({2, 2}, {-kInfinity, -kInfinity, 1, -kInfinity});
  expect_near(logsumexp(x, 1).value(), {-kInfinity, 1});
  const auto gradients =
      gradients_of([](std::span<const Var> v) { return logsumexp(v[0], 1); }, {x});
  expect_near(gradients[0], {0, 0, 1, 0});
}

TEST(Logsumexp, PropagatesInfinityAndNaN) {
  expect_near(logsumexp(Array::from({2, 2}, {kInfinity, 1, kNaN, 1}), 1).value(),
              {kInfinity, kNaN});
}

TEST(Reduce, NamesAnAxisOutside) {
  const Array x = Array::zeros({3, 5}, DType::float32);
  for (const Reduction& reduction : kReductions) {
    for (const int axis : {2, -3}) {
      expect_throws<ShapeError>([&] { static_cast<void>(reduction.apply(x, axis, false)); },
                                std::string(reduction.name) + ": axis " + std::to_string(axis) +
                                    " is outside [3, 5] of rank 2");
    }
  }
  expect_throws<ShapeError>([&] { static_cast<void>(cumsum(x, 2)); },
                            "cumsum: axis 2 is outside [3, 5] of rank 2");
  expect_throws<ShapeError>([] { static_cast<void>(sum(Array::scalar(1, DType::float32), 0)); },
                            "sum: axis 0 is outside [] of rank 0");
}

TEST(Max, RefusesAnEmptyAxis) {
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(max(Array::zeros({3, 0}, DType::float32), -1));
      },
      "max: axis -1 of [3, 0] is empty");
}

}  // namespace attune::reduce_test
