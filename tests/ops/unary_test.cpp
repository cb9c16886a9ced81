#include "attune/ops/unary.h"

#include <limits>
#include <numbers>

#include "ops/op_test.h"

namespace attune::unary_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Function {
  const char* name;
  Var (*apply)(const Var&);
  double (*scalar)(double);  // from the standard library, in double
  double low = -4;
  double high = 4;
};

const Function kFunctions[] = {
    {"exp", exp, [](double x) { return std::exp(x); }},
    {"log", log, [](double x) { return std::log(x); }, 0.2, 5},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.2, 5},
    {"square", square, [](double x) { return x * x; }},
    {"abs", abs, [](double x) { return std::abs(x); }},
    {"sin", sin, [](double x) { return std::sin(x); }},
    {"cos", cos, [](double x) { return std::cos(x); }},
    {"tanh", tanh, [](double x) { return std::tanh(x); }},
    {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"softplus", softplus, [](double x) { return std::log(1 + std::exp(x)); }},
    {"relu", relu, [](double x) { return x > 0 ? x : 0; }},
    {"gelu", gelu, [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }},
    {"gelu_tanh", gelu_tanh,
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
};

const Shape kShapes[] = {{}, {0}, {1}, {3, 5}, {2, 0, 3}, {8}, {67}};

std::vector<double> naive(const Function& function, const Array& x) {
  std::vector<double> result;
  for (const double value : x.to_vector()) result.push_back(function.scalar(value));
  return result;
}

TEST(Unary, EqualsTheStandardLibrary) {
  for (const Function& function : kFunctions) {
    for (const Shape& shape : kShapes) {
      for (const DType dtype : {DType::float32, DType::float64}) {
        SCOPED_TRACE(function.name + to_string(shape));
        const Array x = random_array(shape, 1, dtype, function.low, function.high);
        const Array y = function.apply(x).value();
        EXPECT_EQ(y.shape(), shape);
        EXPECT_EQ(y.dtype(), dtype);
        // The double error function of xsimd is good to 4e-12 of erfc in the tail.
        expect_near(y, naive(function, x), dtype == DType::float32 ? 1e-6 : 1e-13);
      }
    }
  }
}

TEST(Unary, ValueIsTheSameWithAndWithoutATape) {
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    const Array x = random_array({67}, 2, DType::float32, function.low, function.high);
    Tape tape;
    EXPECT_EQ(function.apply(tape.leaf(x)).value().to_vector(),
              function.apply(x).value().to_vector());
    EXPECT_EQ(function.apply(x).tape(), nullptr);
  }
}

TEST(Unary, ValueDoesNotDependOnThePlaceInTheArray) {
  for (const Function& function : kFunctions) {
    const Array x = random_array({67}, 3, DType::float32, function.low, function.high);
    const std::vector<double> whole = function.apply(x).value().to_vector();
    const std::vector<double> values = x.to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Array alone = function.apply(Array::from({1}, {values[i]})).value();
      EXPECT_EQ(alone.item(), whole[i]) << function.name << " at " << i;
    }
  }
}

TEST(Unary, GradientsMatch) {
  for (const Function& function : kFunctions) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(function.name + to_string(shape));
      expect_gradients_match([&](std::span<const Var> x) { return function.apply(x[0]); },
                             {random_array(shape, 4, DType::float64, function.low, function.high)});
    }
  }
}

TEST(Unary, FloatGradientsEqualDoubleOnes) {
  for (const Function& function : kFunctions) {
    SCOPED_TRACE(function.name);
    const auto gradient = [&](const Array& x) {
      return gradients_of([&](std::span<const Var> v) { return function.apply(v[0]); }, {x})[0];
    };
    const Array x = random_array({2, 67}, 5, DType::float32, function.low, function.high);
    expect_near(gradient(x), gradient(x.cast(DType::float64)).to_vector(), 1e-6);
  }
}

TEST(Unary, ZeroGradientStaysZeroWhereTheSlopeIsNotFinite) {
  const auto gradient = [](Var (*apply)(const Var&), double x) {
    return gradients_of([&](std::span<const Var> v) { return apply(v[0]); },
                        {Array::from({1}, {x})}, Array::from({1}, {0}))[0];
  };
  expect_near(gradient(exp, 100), {0});
  expect_near(gradient(log, 0), {0});
  expect_near(gradient(sqrt, 0), {0});
  expect_near(gradient(sqrt, -1), {0});
}

TEST(Unary, LimitsAreExact) {
  const Array x = Array::from({4}, {-kInfinity, kInfinity, -1000, 1000});
  expect_near(exp(x).value(), {0, kInfinity, 0, kInfinity});
  expect_near(sigmoid(x).value(), {0, 1, 0, 1});
  expect_near(tanh(x).value(), {-1, 1, -1, 1});
  expect_near(softplus(x).value(), {0, kInfinity, 0, 1000});
  expect_near(relu(x).value(), {0, kInfinity, 0, 1000});
  expect_near(log(Array::from({2}, {0, -1})).value(), {-kInfinity, kNaN});
}

TEST(Unary, NaNStaysNaN) {
  for (const Function& function : kFunctions) {
    EXPECT_TRUE(std::isnan(function.apply(Array::from({1}, {kNaN})).value().item()))
        << function.name;
  }
}

TEST(Relu, HasGradientZeroAtZero) {
  const auto gradients = gradients_of([](std::span<const Var> x) { return relu(x[0]); },
                                      {Array::from({4}, {-1, 0, -0.0, 2})});
  expect_near(gradients[0], {0, 0, 0, 1});
}

TEST(Abs, HasGradientZeroAtZero) {
  const auto gradients = gradients_of([](std::span<const Var> x) { return abs(x[0]); },
                                      {Array::from({4}, {-3, 0, -0.0, 2})});
  expect_near(gradients[0], {-1, 0, 0, 1});
}

// Published values of both forms (tests of PyTorch and JAX agree on them); 1e-6 tells them apart.
TEST(Gelu, TakesTheValuesOfTheErrorFunctionForm) {  // B23
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = Array::from({6}, {1, -1, 3, 0, 10, -10}, dtype);
    expect_near(gelu(x).value(), {0.8413447, -0.1586553, 2.9959503, 0, 10, 0}, 1e-6);
    const auto slopes = gradients_of([](std::span<const Var> v) { return gelu(v[0]); },
                                     {Array::from({4}, {1, -1, 2, 0}, dtype)});
    expect_near(slopes[0], {1.083315, -0.083315, 1.085232, 0.5}, 1e-6);
  }
}

TEST(Gelu, KeepsRelativeAccuracyInTheTail) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (double x = -8; x < 0; x += 0.0625) {
      const double expected = x * std::erfc(-x / std::numbers::sqrt2) / 2;
      const double ratio = gelu(Array::from({1}, {x}, dtype)).value().item() / expected;
      EXPECT_NEAR(ratio, 1, dtype == DType::float32 ? 1e-5 : 1e-10) << x;
    }
  }
}

TEST(GeluTanh, TakesTheValuesOfTheTanhForm) {  // B23
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = Array::from({6}, {1, -1, 3, 0, 10, -10}, dtype);
    expect_near(gelu_tanh(x).value(), {0.8411920, -0.1588080, 2.9963627, 0, 10, 0}, 1e-6);
    const auto slopes = gradients_of([](std::span<const Var> v) { return gelu_tanh(v[0]); },
                                     {Array::from({4}, {1, -1, 2, 0}, dtype)});
    expect_near(slopes[0], {1.082964, -0.082964, 1.086099, 0.5}, 1e-6);
  }
}

}  // namespace attune::unary_test
