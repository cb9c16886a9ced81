#include "attune/ops/arithmetic.h"

#include <limits>

#include "attune/ops/reduce.h"
#include "ops/op_test.h"

namespace attune::arithmetic_test {

struct Operation {
  const char* name;
  Var (*apply)(const Var&, const Var&);
  double (*scalar)(double, double);
};

const Operation kOperations[] = {
    {"add", add, [](double x, double y) { return x + y; }},
    {"subtract", subtract, [](double x, double y) { return x - y; }},
    {"multiply", multiply, [](double x, double y) { return x * y; }},
    {"divide", divide, [](double x, double y) { return x / y; }},
    {"maximum", maximum, [](double x, double y) { return x > y ? x : y; }},
    {"minimum", minimum, [](double x, double y) { return x < y ? x : y; }},
};

const std::pair<Shape, Shape> kShapes[] = {
    {{3, 5}, {3, 5}},
    {{3, 5}, {5}},
    {{5}, {3, 5}},
    {{3, 5}, {3, 1}},
    {{3, 1}, {3, 5}},
    {{3, 1}, {1, 5}},
    {{3, 5}, {}},
    {{}, {3, 5}},
    {{}, {}},
    {{1}, {1}},
    {{1}, {}},
    {{2, 1, 3}, {4, 1}},
    {{7, 1, 3}, {1, 5, 1}},
    {{2, 3, 5}, {3, 1}},
    {{2, 3, 5}, {3, 5}},
    {{2, 3, 5}, {2, 1, 5}},
    {{0, 3}, {3}},
    {{0, 3}, {1, 1}},
    {{2, 0}, {2, 1}},
    {{1, 2, 1, 3}, {5, 1, 7, 1}},
    {{3, 67}, {67}},
};

// The value at a flat index of `shape`, read with the strides of the operand.
double read(const Array& x, const Shape& shape, std::int64_t index) {
  const std::vector<double> values = x.to_vector();
  std::int64_t at = 0;
  std::int64_t below = 1;
  for (int axis = 1; axis <= shape.rank(); ++axis) {
    const std::int64_t coordinate = index % shape[-axis];
    index /= shape[-axis];
    if (axis > x.shape().rank()) continue;
    if (x.shape()[-axis] != 1) at += coordinate * below;
    below *= x.shape()[-axis];
  }
  return values[static_cast<std::size_t>(at)];
}

std::vector<double> naive(const Operation& operation, const Array& a, const Array& b) {
  const Shape shape = broadcast("naive", a.shape(), b.shape());
  std::vector<double> result;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    result.push_back(operation.scalar(read(a, shape, i), read(b, shape, i)));
  }
  return result;
}

// Away from 0, so that quotients are tame.
Array operand(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, dtype, 0.5, 2);
}

TEST(Arithmetic, EqualsANaiveLoopOverAllBroadcasts) {
  for (const Operation& operation : kOperations) {
    for (const auto& [shape_a, shape_b] : kShapes) {
      SCOPED_TRACE(operation.name + to_string(shape_a) + to_string(shape_b));
      for (const DType dtype : {DType::float32, DType::float64}) {
        const Array a = operand(shape_a, 1, dtype);
        const Array b = operand(shape_b, 2, dtype);
        const Array y = operation.apply(a, b).value();
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), broadcast("test", shape_a, shape_b));
        expect_near(y, naive(operation, a, b), dtype == DType::float32 ? 1e-6 : 1e-15);
      }
    }
  }
}

TEST(Arithmetic, GradientsMatchOverAllBroadcasts) {
  for (const Operation& operation : kOperations) {
    for (const auto& [shape_a, shape_b] : kShapes) {
      SCOPED_TRACE(operation.name + to_string(shape_a) + to_string(shape_b));
      expect_gradients_match(
          [&](std::span<const Var> x) { return operation.apply(x[0], x[1]); },
          {operand(shape_a, 3, DType::float64), operand(shape_b, 4, DType::float64)});
    }
  }
}

TEST(Arithmetic, GradientsMatchWhereOneOperandIsConstant) {
  const Array constant = operand({3, 5}, 5, DType::float64);
  for (const Operation& operation : kOperations) {
    SCOPED_TRACE(operation.name);
    const std::vector<Array> input = {operand({5}, 6, DType::float64)};
    expect_gradients_match([&](std::span<const Var> x) { return operation.apply(x[0], constant); },
                           input);
    expect_gradients_match([&](std::span<const Var> x) { return operation.apply(constant, x[0]); },
                           input);
  }
}

TEST(Arithmetic, OfConstantsIsAConstant) {
  for (const Operation& operation : kOperations) {
    EXPECT_EQ(operation.apply(Array::from({2}, {1, 2}), Array::from({2}, {3, 4})).tape(), nullptr);
  }
}

TEST(Arithmetic, SameOperandTwiceGetsBothGradients) {  // B26
  const std::vector<Array> x = {Array::from({3}, {-1, 0.5, 4}, DType::float64)};
  const auto both = [&](Var (*apply)(const Var&, const Var&)) {
    return gradients_of([&](std::span<const Var> v) { return apply(v[0], v[0]); }, x)[0];
  };
  expect_near(both(multiply), {-2, 1, 8});
  expect_near(both(add), {2, 2, 2});
  expect_near(both(subtract), {0, 0, 0});
  expect_near(both(divide), {0, 0, 0});
}

TEST(Arithmetic, NodeUsedTwiceCollectsEveryPath) {  // B26
  // d = (a a + a a) (a a) = 2 a^4: d = 32 and 8 a^3 = 64 at a = 2
  Array value;
  const std::vector<Array> gradient = gradients_of(
      [&](std::span<const Var> x) {
        const Var b = x[0] * x[0];
        const Var d = (b + b) * b;
        value = d.value();
        return d;
      },
      {Array::scalar(2, DType::float32)});
  EXPECT_EQ(value.item(), 32);
  EXPECT_EQ(gradient[0].item(), 64);
}

TEST(Arithmetic, BroadcastGradientsAreSummedToEachOperandsShape) {  // B28
  // By hand: dA_i = sum_j B_j C_ij, dB_j = sum_i A_i C_ij.
  const auto product = gradients_of([](std::span<const Var> x) { return x[0] * x[1] * x[2]; },
                                    {Array::from({2, 1}, {1, 2}), Array::from({1, 3}, {10, 20, 30}),
                                     Array::from({2, 3}, {1, 2, 3, 4, 5, 6})});
  expect_near(product[0], Array::from({2, 1}, {140, 320}));
  expect_near(product[1], Array::from({1, 3}, {9, 12, 15}));

  const auto scalar = gradients_of([](std::span<const Var> x) { return x[0] * x[1]; },
                                   {Array::scalar(3, DType::float32), Array::from({2}, {1, 2})});
  expect_near(scalar[0], Array::from({}, {3}));

  const auto crossed =
      gradients_of([](std::span<const Var> x) { return x[0] + x[1]; },
                   {Array::zeros({2, 1, 3}, DType::float32), Array::zeros({4, 1}, DType::float32)});
  expect_near(crossed[0], Array::full({2, 1, 3}, 4, DType::float32));
  expect_near(crossed[1], Array::full({4, 1}, 6, DType::float32));

  const auto square =
      gradients_of([](std::span<const Var> x) { return x[0] + x[1]; },
                   {Array::zeros({3}, DType::float32), Array::zeros({3, 3}, DType::float32)});
  expect_near(square[0], Array::full({3}, 3, DType::float32));
}

TEST(Arithmetic, TiesOfMaximumAndMinimumGiveTheGradientToTheFirst) {
  for (const auto apply : {maximum, minimum}) {
    const auto gradients = gradients_of([&](std::span<const Var> x) { return apply(x[0], x[1]); },
                                        {Array::from({2}, {1, 0}), Array::from({2}, {1, -0.0})});
    expect_near(gradients[0], {1, 1});
    expect_near(gradients[1], {0, 0});
  }
}

TEST(Arithmetic, MaximumAndMinimumPropagateNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array a = Array::from({3}, {nan, 1, nan});
  const Array b = Array::from({3}, {1, nan, nan});
  expect_near(maximum(a, b).value(), {nan, nan, nan});
  expect_near(minimum(a, b).value(), {nan, nan, nan});
}

TEST(Arithmetic, ZeroGradientStaysZeroBesideAnInfiniteFactor) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto gradients = gradients_of([](std::span<const Var> x) { return multiply(x[0], x[1]); },
                                      {Array::from({2}, {inf, 3}), Array::from({2}, {1, 2})},
                                      Array::from({2}, {0, 1}));
  expect_near(gradients[1], {0, 3});
}

TEST(Arithmetic, ScalarOperandsMatch) {
  const Array x = random_array({3, 5}, 7, DType::float64, 0.5, 2);
  const std::vector<double> values = x.to_vector();
  const auto expected = [&](auto f) {
    std::vector<double> result;
    for (const double value : values) result.push_back(f(value));
    return result;
  };
  expect_near((Var(x) + 3.0).value(), expected([](double v) { return v + 3; }), 1e-15);
  expect_near((3.0 - Var(x)).value(), expected([](double v) { return 3 - v; }), 1e-15);
  expect_near((Var(x) * 3.0).value(), expected([](double v) { return v * 3; }), 1e-15);
  expect_near((Var(x) / 3.0).value(), expected([](double v) { return v / 3; }), 1e-15);
  expect_near((-Var(x)).value(), expected([](double v) { return -v; }), 1e-15);
  expect_gradients_match(
      [](std::span<const Var> v) { return (2.0 - v[0] * 3.0 + 1.0) / 7.0 - (-v[0]); }, {x});
}

TEST(Power, EqualsTheStandardPowerForEachExponent) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = random_array({3, 5}, 8, dtype, 0.5, 2);
    for (const double exponent : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.7, 2.0, 3.0}) {
      std::vector<double> expected;
      for (const double value : x.to_vector()) expected.push_back(std::pow(value, exponent));
      expect_near(power(x, exponent).value(), expected, dtype == DType::float32 ? 1e-6 : 1e-14);
    }
  }
}

TEST(Power, GradientsMatchForEachExponent) {
  for (const double exponent : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 1.7, 2.0, 3.0}) {
    SCOPED_TRACE(exponent);
    expect_gradients_match([&](std::span<const Var> x) { return power(x[0], exponent); },
                           {random_array({3, 5}, 9, DType::float64, 0.5, 2)});
  }
  expect_gradients_match([](std::span<const Var> x) { return power(x[0], 3); },
                         {random_array({7}, 10, DType::float64, -2, -0.5)});
}

TEST(Power, ExponentZeroHasGradientZeroAtZero) {
  const auto gradients = gradients_of([](std::span<const Var> x) { return power(x[0], 0); },
                                      {Array::from({2}, {0, 3})});
  expect_near(gradients[0], {0, 0});
}

TEST(Arithmetic, NamesOperationAndShapesThatDoNotBroadcast) {
  const Array a = Array::zeros({2, 3}, DType::float32);
  const Array b = Array::zeros({4}, DType::float32);
  for (const Operation& operation : kOperations) {
    expect_throws<ShapeError>([&] { static_cast<void>(operation.apply(a, b)); },
                              std::string(operation.name) + ": [2, 3] and [4] do not broadcast");
  }
}

TEST(Arithmetic, NamesDtypesThatDiffer) {
  const Array a = Array::zeros({2, 3}, DType::float32);
  const Array b = Array::zeros({3}, DType::float64);
  for (const Operation& operation : kOperations) {
    expect_throws<ShapeError>(
        [&] { static_cast<void>(operation.apply(a, b)); },
        std::string(operation.name) +
            ": operands are float32 [2, 3] and float64 [3], expected one dtype");
  }
}

}  // namespace attune::arithmetic_test
