#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/unary.h"
#include "ops/fused_op_test.h"

// linear_activation and swiglu: what a feed-forward layer runs between its products.
namespace attune::linear_activation_test {

using Values = std::span<const Var>;
const Var kNone;
constexpr DType kTypes[] = {DType::float32, DType::float64};

struct Function {
  const char* name;
  ActivationFunction function;
  Var (*apply)(const Var&);
  double (*scalar)(double);  // from the standard library
};

const Function kFunctions[] = {
    {"relu", ActivationFunction::relu, relu, [](double x) { return std::max(x, 0.0); }},
    {"gelu", ActivationFunction::gelu, gelu,
     [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; }},
    {"gelu_tanh", ActivationFunction::gelu_tanh, gelu_tanh,
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", ActivationFunction::silu, silu, [](double x) { return x / (1 + std::exp(-x)); }},
};

// x: [..., in], weight: [out, in]
std::vector<double> naive(const Function& function, const Array& x, const Array& weight,
                          const Array& bias) {
  const std::vector<double> in = x.to_vector(), w = weight.to_vector(), b = bias.to_vector();
  const auto columns = static_cast<std::size_t>(weight.shape()[1]);
  const auto outputs = static_cast<std::size_t>(weight.shape()[0]);
  const auto rows = static_cast<std::size_t>(x.shape().rows());
  std::vector<double> y;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t out = 0; out < outputs; ++out) {
      double sum = b.empty() ? 0 : b[out];
      for (std::size_t i = 0; i < columns; ++i) sum += in[row * columns + i] * w[out * columns + i];
      y.push_back(function.scalar(sum));
    }
  }
  return y;
}

struct Extents {
  Shape x;
  std::int64_t out;
};
const Extents kExtents[] = {{{3}, 5},    {{1, 3}, 2}, {{5, 3}, 7},    {{2, 3, 7}, 13}, {{0, 3}, 5},
                            {{2, 0}, 5}, {{3, 5}, 0}, {{67, 31}, 64}, {{3, 11, 8}, 43}};

std::vector<Array> inputs_of(const Extents& extents, bool bias, DType dtype) {
  std::vector<Array> inputs = {random_array(extents.x, 1, dtype, -2, 2),
                               random_array({extents.out, extents.x.last()}, 2, dtype)};
  if (bias) inputs.push_back(random_array({extents.out}, 3, dtype));
  return inputs;
}

TEST(LinearActivation, EqualsATripleLoop) {
  for (const Function& function : kFunctions) {
    for (const Extents& extents : kExtents) {
      for (const DType dtype : kTypes) {
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(function.name + to_string(extents.x));
          const std::vector<Array> in = inputs_of(extents, bias, dtype);
          const Array b = bias ? in[2] : Array();
          const Array y = linear_activation(in[0], in[1], b, function.function).value();
          EXPECT_EQ(y.shape(), extents.x.with(-1, extents.out));
          expect_near(y, naive(function, in[0], in[1], b), dtype == DType::float32 ? 1e-5 : 1e-12);
        }
      }
    }
  }
}

TEST(LinearActivation, EqualsTheCompositionToTheLastBit) {
  for (const Function& function : kFunctions) {
    for (const Extents& extents : kExtents) {
      for (const DType dtype : kTypes) {
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(function.name + to_string(extents.x));
          expect_equals_composition(
              [&](Values in) {
                return linear_activation(in[0], in[1], bias ? in[2] : kNone, function.function);
              },
              [&](Values in) { return function.apply(linear(in[0], in[1], bias ? in[2] : kNone)); },
              inputs_of(extents, bias, dtype));
        }
      }
    }
  }
}

TEST(LinearActivation, GradientsMatchFiniteDifferences) {
  for (const Function& function : kFunctions) {
    for (const bool bias : {false, true}) {
      SCOPED_TRACE(function.name);
      expect_gradients_match(
          [&](Values in) {
            return linear_activation(in[0], in[1], bias ? in[2] : kNone, function.function);
          },
          inputs_of({{2, 3, 5}, 7}, bias, DType::float64));
    }
  }
}

TEST(LinearActivation, ConstantOperandsTakeNoGradient) {
  const std::vector<Array> all = inputs_of({{3, 5}, 7}, true, DType::float64);
  for (const Function& function : kFunctions) {
    for (std::size_t only = 0; only < 3; ++only) {
      const auto f = [&](Values in) {
        Var operands[] = {all[0], all[1], all[2]};
        operands[only] = in[0];
        return linear_activation(operands[0], operands[1], operands[2], function.function);
      };
      expect_gradients_match(f, {all[only]});
    }
  }
}

// Whoever holds the value while the gradients run must find it as it was.
TEST(LinearActivation, AValueThatIsHeldStaysAsItWas) {
  for (const Function& function : kFunctions) {
    const std::vector<Array> in = inputs_of({{3, 5}, 7}, true, DType::float64);
    Tape tape;
    const Var weight = tape.leaf(in[1]);
    const Var y = linear_activation(in[0], weight, in[2], function.function);
    const std::vector<double> before = y.value().to_vector();
    (void)tape.backward(y, random_array({3, 7}, 5));
    EXPECT_EQ(y.value().to_vector(), before) << function.name;
  }
}

TEST(LinearActivation, ZeroGradientStaysZeroWhereTheSlopeIsNaN) {
  const Array x = Array::from({1, 1}, {std::numeric_limits<double>::infinity()});
  for (const Function& function : kFunctions) {
    const auto gradients = gradients_of(
        [&](Values in) {
          return linear_activation(x, Array::from({1, 1}, {-1}), in[0], function.function);
        },
        {Array::from({1}, {0})}, Array::from({1, 1}, {0}));
    EXPECT_EQ(gradients[0].item(), 0) << function.name;
  }
}

TEST(LinearActivation, NamesShapesThatDoNotFit) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  const Array weight = Array::zeros({5, 4}, DType::float32);
  expect_throws<ShapeError>(
      [&] { (void)linear_activation(x, weight, kNone, ActivationFunction::gelu); },
      "linear_activation: x [2, 3] has 3 columns but weight [5, 4] takes 4");
  expect_throws<ShapeError>(
      [&] {
        (void)linear_activation(Array::zeros({2, 4}, DType::float32), weight,
                                Array::zeros({4}, DType::float32), ActivationFunction::relu);
      },
      "linear_activation: bias [4], expected [5] for weight [5, 4]");
}

Var composed_swiglu(Values in) { return silu(in[0]) * in[1]; }
Var fused_swiglu(Values in) { return swiglu(in[0], in[1]); }
const Shape kShapes[] = {{}, {0}, {1}, {3, 5}, {2, 0, 3}, {8}, {67}, {5, 128}};

TEST(Swiglu, EqualsItsFormula) {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : kShapes) {
      const Array gate = random_array(shape, 1, dtype, -4, 4);
      const Array up = random_array(shape, 2, dtype);
      std::vector<double> expected = gate.to_vector();
      const std::vector<double> factors = up.to_vector();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = expected[i] / (1 + std::exp(-expected[i])) * factors[i];
      }
      const Array y = swiglu(gate, up).value();
      EXPECT_EQ(y.shape(), shape);
      expect_near(y, expected, dtype == DType::float32 ? 1e-6 : 1e-14);
    }
  }
}

TEST(Swiglu, EqualsTheCompositionToTheLastBit) {
  for (const DType dtype : kTypes) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(to_string(shape));
      expect_equals_composition(
          fused_swiglu, composed_swiglu,
          {random_array(shape, 1, dtype, -40, 40), random_array(shape, 2, dtype)});
    }
  }
}

TEST(Swiglu, GradientsMatchFiniteDifferences) {
  for (const Shape& shape : kShapes) {
    const Array gate = random_array(shape, 1, DType::float64, -4, 4);
    const Array up = random_array(shape, 2);
    expect_gradients_match(fused_swiglu, {gate, up});
    expect_gradients_match([&](Values in) { return swiglu(in[0], up); }, {gate});
    expect_gradients_match([&](Values in) { return swiglu(gate, in[0]); }, {up});
    expect_gradients_match([](Values in) { return swiglu(in[0], in[0]); }, {gate});
  }
}

TEST(Swiglu, OperandsThatAreHeldStayAsTheyWere) {
  const Array gate = random_array({3, 5}, 1), up = random_array({3, 5}, 2);
  const std::vector<double> gates = gate.to_vector(), ups = up.to_vector();
  Tape tape;
  const Var y = swiglu(tape.leaf(gate), tape.leaf(up));
  (void)tape.backward(y, random_array({3, 5}, 3));
  EXPECT_EQ(gate.to_vector(), gates);
  EXPECT_EQ(up.to_vector(), ups);
}

TEST(Swiglu, RefusesOperandsOfTwoShapesOrTypes) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  expect_throws<ShapeError>([&] { (void)swiglu(x, Array::zeros({3}, DType::float32)); },
                            "swiglu: gate is [2, 3], up [3], expected one shape");
  expect_throws<ShapeError>(
      [&] {
        (void)swiglu(x, Array::zeros({2, 3}, DType::float64));
      },
      "swiglu: operands are float32 [2, 3] and float64 [2, 3], expected one dtype");
}

}  // namespace attune::linear_activation_test
