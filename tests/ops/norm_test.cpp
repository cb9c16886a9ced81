#include "attune/ops/norm.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "ops/op_test.h"

namespace attune::norm_test {

const Var kNone;

// The definition, row by row in long double.
std::vector<double> naive_norm(const Array& x, const std::vector<double>& gain,
                               const std::vector<double>& shift, double eps, bool centers) {
  std::vector<double> y = x.to_vector();
  const auto n = static_cast<std::size_t>(x.shape().last());
  for (std::size_t begin = 0; begin < y.size(); begin += n) {
    long double mean = 0;
    for (std::size_t i = 0; centers && i < n; ++i) mean += y[begin + i];
    mean /= static_cast<long double>(n);
    long double square = 0;
    for (std::size_t i = 0; i < n; ++i) square += (y[begin + i] - mean) * (y[begin + i] - mean);
    const long double root = std::sqrt(square / static_cast<long double>(n) + eps);
    for (std::size_t i = 0; i < n; ++i)
      y[begin + i] = static_cast<double>((y[begin + i] - mean) / root * gain[i] + shift[i]);
  }
  return y;
}

TEST(LayerNorm, EqualsTheDefinitionForEveryTailLength) {
  for (std::int64_t n = 1; n <= 41; ++n) {
    const Array x = random_array({3, 2, n}, 1, DType::float64, -2, 3);
    const Array gain = random_array({n}, 2, DType::float64);
    const Array shift = random_array({n}, 3, DType::float64);
    const auto expected = naive_norm(x, gain.to_vector(), shift.to_vector(), 1e-5, true);
    expect_near(layer_norm(x, gain, shift).value(), expected, 1e-12);
    const auto single = [](const Array& a) { return a.cast(DType::float32); };
    expect_near(layer_norm(single(x), single(gain), single(shift)).value(), expected,
                n == 1 ? 1e-7 : 1e-4);
  }
}

TEST(LayerNorm, NullParametersAreOneAndZero) {
  const Array x = random_array({5, 7}, 1, DType::float64);
  const std::vector<double> ones(7, 1.0);
  const std::vector<double> zeros(7, 0.0);
  const std::vector<double> twos(7, 2.0);
  const Array two = Array::full({7}, 2, DType::float64);
  expect_near(layer_norm(x, kNone, kNone, 0.1).value(), naive_norm(x, ones, zeros, 0.1, true),
              1e-12);
  expect_near(layer_norm(x, two, kNone, 0.1).value(), naive_norm(x, twos, zeros, 0.1, true), 1e-12);
  expect_near(layer_norm(x, kNone, two, 0.1).value(), naive_norm(x, ones, twos, 0.1, true), 1e-12);
}

TEST(LayerNorm, GradientsMatchFiniteDifferences) {
  for (const std::int64_t n : {2, 3, 7, 13, 37}) {
    const std::vector<Array> inputs = {random_array({2, 3, n}, 1, DType::float64, -2, 2),
                                       random_array({n}, 2, DType::float64),
                                       random_array({n}, 3, DType::float64)};
    expect_gradients_match(
        [](std::span<const Var> in) { return layer_norm(in[0], in[1], in[2], 1e-2); }, inputs);
    expect_gradients_match(
        [](std::span<const Var> in) { return layer_norm(in[0], kNone, kNone, 1e-2); }, {inputs[0]});
    expect_gradients_match(
        [x = inputs[0]](std::span<const Var> in) { return layer_norm(x, in[0], in[1]); },
        {inputs[1], inputs[2]});
    expect_gradients_match(
        [s = inputs[2]](std::span<const Var> in) { return layer_norm(in[0], in[1], s, 1e-2); },
        {inputs[0], inputs[1]});
    expect_gradients_match(
        [](std::span<const Var> in) { return layer_norm(in[0], kNone, in[1], 1e-2); },
        {inputs[0], inputs[2]});
  }
}

TEST(LayerNorm, OneVarMayBeGainAndShift) {
  expect_gradients_match(
      [](std::span<const Var> in) { return layer_norm(in[0], in[1], in[1]); },
      {random_array({3, 5}, 1, DType::float64, -2, 2), random_array({5}, 2, DType::float64)});
}

// (-1.5, -0.5, 0.5, 1.5) / sqrt(1.25 + 1e-5); a one-pass float32 variance is negative here.
TEST(LayerNorm, ALargeMeanLosesNoDigits) {  // B22
  const Array x = Array::from({4}, {40000, 40001, 40002, 40003});
  expect_near(layer_norm(x, kNone, kNone).value(),
              std::vector<double>{-1.341635, -0.447212, 0.447212, 1.341635}, 2e-6);
}

TEST(LayerNorm, AConstantRowIsExactlyTheShift) {  // B22
  for (const double value : {1234.0, 1234.567, 0.1, -1e20}) {
    for (const std::int64_t n : {1, 7, 256, 384}) {
      const Array y = layer_norm(Array::full({2, n}, value, DType::float32), kNone,
                                 Array::full({n}, 0.5, DType::float32))
                          .value();
      expect_near(y, std::vector<double>(static_cast<std::size_t>(2 * n), 0.5), 0);
    }
  }
}

Array layer_norm_gradient(const Array& x, const Array& seed) {
  Tape tape;
  const Var leaf = tape.leaf(x);
  return tape.backward(layer_norm(leaf, kNone, kNone), seed)[leaf];
}

// (I - 1/n) dy / sqrt(eps), and the projection formula worked out by hand, eps = 1e-5.
TEST(LayerNorm, BackwardOfConstantAndOfRisingRows) {  // B22
  const Array seed = Array::from({4}, {1, 0, 0, 0});
  expect_near(layer_norm_gradient(Array::from({4}, {7, 7, 7, 7}), seed),
              std::vector<double>{237.1708, -79.0569, -79.0569, -79.0569}, 1e-6);
  expect_near(layer_norm_gradient(Array::from({4}, {1, 2, 3, 4}), seed),
              std::vector<double>{0.268330, -0.357768, -0.089443, 0.178882}, 1e-6);
}

// With h = +1 and -1 in turn along each row, dgain_j = rows h_j and dshift_j = 3 rows / 4 have
// closed forms; float32 sums row by row would be off by more than 1e-6 of them.
TEST(LayerNorm, ParameterGradientsOfManyRowsKeepTheirDigits) {
  constexpr std::int64_t kRows = 100003;
  std::vector<double> values(kRows * 2);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.1 : 0.1;
  Tape tape;
  const Var gain = tape.leaf(Array::full({2}, 1, DType::float32));
  const Var shift = tape.leaf(Array::zeros({2}, DType::float32));
  const Var y = layer_norm(Array::from({kRows, 2}, values, DType::float32), gain, shift, 0);
  const Gradients gradients = tape.backward(y, Array::full({kRows, 2}, 0.1, DType::float32));
  const double expected = 0.1 * kRows;
  expect_near(gradients[gain], std::vector<double>{expected, -expected}, 1e-6);
  expect_near(gradients[shift], std::vector<double>{expected, expected}, 1e-6);
}

template <class F>
std::string message_of(F f) {
  try {
    (void)f();
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  const Array four = Array::zeros({4}, DType::float32);
  const Array wide = Array::zeros({3}, DType::float64);
  EXPECT_EQ(message_of([&] { return layer_norm(x, four, kNone); }),
            "layer_norm: gain is [4], x [2, 3] needs [3]");
  EXPECT_EQ(message_of([&] { return layer_norm(x, kNone, four); }),
            "layer_norm: shift is [4], x [2, 3] needs [3]");
  EXPECT_EQ(message_of([&] { return layer_norm(x, wide, kNone); }),
            "layer_norm: gain is float64, x is float32");
  EXPECT_EQ(message_of([&] { return rms_norm(x, four); }),
            "rms_norm: gain is [4], x [2, 3] needs [3]");
  EXPECT_EQ(message_of([&] {
              return rms_norm(Array::zeros({3, 0}, DType::float32), kNone);
            }),
            "rms_norm: x [3, 0] has nothing to normalise over, its last axis must hold at least 1");
}

TEST(LayerNorm, NoRowsGiveNoRowsAndZeroParameterGradients) {
  Tape tape;
  const Var gain = tape.leaf(Array::full({3}, 1, DType::float32));
  const Var y = layer_norm(Array::zeros({0, 3}, DType::float32), gain, kNone);
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  const Gradients gradients = tape.backward(y, Array::zeros({0, 3}, DType::float32));
  expect_near(gradients[gain], std::vector<double>{0, 0, 0}, 0);
}

TEST(RmsNorm, EqualsTheDefinitionForEveryTailLength) {
  for (std::int64_t n = 1; n <= 41; ++n) {
    const Array x = random_array({3, 2, n}, 1, DType::float64, -2, 3);
    const Array gain = random_array({n}, 2, DType::float64);
    const std::vector<double> zeros(static_cast<std::size_t>(n), 0.0);
    const auto expected = naive_norm(x, gain.to_vector(), zeros, 1e-6, false);
    expect_near(rms_norm(x, gain).value(), expected, 1e-12);
    expect_near(rms_norm(x.cast(DType::float32), gain.cast(DType::float32)).value(), expected,
                1e-5);
  }
}

TEST(RmsNorm, GradientsMatchFiniteDifferences) {
  for (const std::int64_t n : {1, 2, 7, 13, 37}) {
    const Array x = random_array({2, 3, n}, 1, DType::float64, 0.5, 2);
    const Array gain = random_array({n}, 2, DType::float64);
    expect_gradients_match([](std::span<const Var> in) { return rms_norm(in[0], in[1], 1e-2); },
                           {x, gain});
    expect_gradients_match([](std::span<const Var> in) { return rms_norm(in[0], kNone, 1e-2); },
                           {x});
    expect_gradients_match([x](std::span<const Var> in) { return rms_norm(x, in[0]); }, {gain});
  }
}

TEST(RmsNorm, ARowOfZerosStaysZero) {
  expect_near(rms_norm(Array::zeros({2, 5}, DType::float32), kNone).value(),
              std::vector<double>(10, 0.0), 0);
}

}  // namespace attune::norm_test
