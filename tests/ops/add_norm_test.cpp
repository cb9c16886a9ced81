#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "attune/ops/arithmetic.h"
#include "attune/ops/norm.h"
#include "ops/fused_op_test.h"

// add_layer_norm and add_rms_norm.
namespace attune::add_norm_test {

using Values = std::span<const Var>;
const Var kNone;
constexpr DType kTypes[] = {DType::float32, DType::float64};

// (s - mean) / sqrt(var + eps) gain + shift with s = x + branch rounded to the dtype; a root mean
// square norm does not center.
std::vector<double> naive(const Array& sum, const Array& gain, const Array& shift, double eps,
                          bool centers) {
  std::vector<double> y = sum.to_vector();
  const std::int64_t n = sum.shape().last();
  for (std::int64_t row = 0; row < sum.shape().rows(); ++row) {
    double* s = y.data() + row * n;
    double mean = 0;
    for (std::int64_t i = 0; centers && i < n; ++i) mean += s[i] / static_cast<double>(n);
    double square = 0;
    for (std::int64_t i = 0; i < n; ++i) square += (s[i] - mean) * (s[i] - mean);
    const double root = std::sqrt(square / static_cast<double>(n) + eps);
    for (std::int64_t i = 0; i < n; ++i) {
      s[i] = (s[i] - mean) / root * gain.at({i}) + shift.at({i});
    }
  }
  return y;
}

Array sum_of(const Array& x, const Array& branch) {
  std::vector<double> sum = x.to_vector();
  const std::vector<double> other = branch.to_vector();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return Array::from(x.shape(), sum, x.dtype());
}

TEST(AddNorm, EqualsTheDefinitionForEveryTailLength) {
  for (const DType dtype : kTypes) {
    const double tolerance = dtype == DType::float32 ? 1e-4 : 1e-12;
    for (std::int64_t n = 2; n <= 41; ++n) {
      SCOPED_TRACE(n);
      const Array x = random_array({3, 2, n}, 1, dtype, -2, 3);
      const Array branch = random_array({3, 2, n}, 2, dtype);
      const Array gain = random_array({n}, 3, dtype);
      const Array shift = random_array({n}, 4, dtype);
      const Array sum = sum_of(x, branch);
      const ResidualNorm layer = add_layer_norm(x, branch, gain, shift);
      expect_near(layer.sum.value(), sum, 0);
      expect_near(layer.normalised.value(), naive(sum, gain, shift, 1e-5, true), tolerance);
      const ResidualNorm rms = add_rms_norm(x, branch, gain);
      expect_near(rms.sum.value(), sum, 0);
      const Array zeros = Array::zeros({n}, dtype);
      expect_near(rms.normalised.value(), naive(sum, gain, zeros, 1e-6, false), tolerance);
    }
  }
}

// Which outputs go on to the loss.
enum class Use { both, sum, normalised };

Var joined(const ResidualNorm& outputs, Use use) {
  if (use == Use::sum) return outputs.sum;
  if (use == Use::normalised) return outputs.normalised;
  return outputs.sum * outputs.normalised + outputs.sum;
}

// Inputs: x, branch, then gain and shift where asked for.
ResidualNorm fused_layer(Values in, bool gain, bool shift) {
  return add_layer_norm(in[0], in[1], gain ? in[2] : kNone, shift ? in[gain ? 3 : 2] : kNone);
}
ResidualNorm composed_layer(Values in, bool gain, bool shift) {
  const Var sum = in[0] + in[1];
  return {sum, layer_norm(sum, gain ? in[2] : kNone, shift ? in[gain ? 3 : 2] : kNone)};
}
ResidualNorm fused_rms(Values in, bool gain, bool) {
  return add_rms_norm(in[0], in[1], gain ? in[2] : kNone);
}
ResidualNorm composed_rms(Values in, bool gain, bool) {
  const Var sum = in[0] + in[1];
  return {sum, rms_norm(sum, gain ? in[2] : kNone)};
}

struct Form {
  const char* name;
  ResidualNorm (*fused)(Values, bool gain, bool shift);
  ResidualNorm (*composed)(Values, bool gain, bool shift);
  bool gain;
  bool shift;

  [[nodiscard]] std::vector<Array> inputs(const Shape& shape, DType dtype) const {
    std::vector<Array> inputs = {random_array(shape, 1, dtype, -2, 2),
                                 random_array(shape, 2, dtype)};
    const Shape width{shape.last()};
    if (gain) inputs.push_back(random_array(width, 3, dtype));
    if (shift) inputs.push_back(random_array(width, 4, dtype));
    return inputs;
  }
};

const Form kForms[] = {
    {"layer", fused_layer, composed_layer, true, true},
    {"layer gain", fused_layer, composed_layer, true, false},
    {"layer shift", fused_layer, composed_layer, false, true},
    {"layer bare", fused_layer, composed_layer, false, false},
    {"rms", fused_rms, composed_rms, true, false},
    {"rms bare", fused_rms, composed_rms, false, false},
};

TEST(AddNorm, EqualsTheCompositionToTheLastBit) {
  const Shape shapes[] = {{1}, {7}, {3, 5}, {2, 3, 8}, {0, 5}, {2, 0, 3}, {5, 13}, {37, 128}};
  for (const Form& form : kForms) {
    for (const Use use : {Use::both, Use::sum, Use::normalised}) {
      for (const DType dtype : kTypes) {
        for (const Shape& shape : shapes) {
          SCOPED_TRACE(std::string(form.name) + to_string(shape));
          expect_equals_composition(
              [&](Values in) { return joined(form.fused(in, form.gain, form.shift), use); },
              [&](Values in) { return joined(form.composed(in, form.gain, form.shift), use); },
              form.inputs(shape, dtype));
        }
      }
    }
  }
}

TEST(AddNorm, GradientsMatchFiniteDifferences) {
  for (const Form& form : kForms) {
    for (const Use use : {Use::both, Use::sum, Use::normalised}) {
      for (const std::int64_t n : {2, 3, 7, 13}) {
        SCOPED_TRACE(std::string(form.name) + " " + std::to_string(n));
        expect_gradients_match(
            [&](Values in) { return joined(form.fused(in, form.gain, form.shift), use); },
            form.inputs({2, 3, n}, DType::float64));
      }
    }
  }
}

TEST(AddNorm, ConstantOperandsTakeNoGradient) {
  const Array x = random_array({3, 5}, 1);
  const Array branch = random_array({3, 5}, 2);
  const Array gain = random_array({5}, 3);
  expect_gradients_match(
      [&](Values in) { return joined(add_layer_norm(x, in[0], gain, kNone), Use::both); },
      {branch});
  expect_gradients_match(
      [&](Values in) { return joined(add_layer_norm(in[0], branch, gain, kNone), Use::both); },
      {x});
  expect_gradients_match(
      [&](Values in) { return joined(add_rms_norm(x, branch, in[0]), Use::both); }, {gain});
}

TEST(AddNorm, OneVarMayBeStreamAndBranch) {
  const Array x = random_array({3, 5}, 1, DType::float64, 0.5, 2);
  for (const Form& form : kForms) {
    if (form.gain || form.shift) continue;
    const auto doubled = [&](auto function) -> DifferentiableFunction {
      return [function](Values in) {
        const std::vector<Var> twice = {in[0], in[0]};
        return joined(function(twice, false, false), Use::both);
      };
    };
    expect_gradients_match(doubled(form.fused), {x});
    expect_equals_composition(doubled(form.fused), doubled(form.composed), {x});
  }
}

TEST(AddNorm, WhatTheLossDoesNotReachIsNotReached) {
  Tape tape;
  const Var x = tape.leaf(random_array({3, 5}, 1));
  const Var gain = tape.leaf(random_array({5}, 2));
  const ResidualNorm outputs = add_rms_norm(x, random_array({3, 5}, 3), gain);
  const Gradients gradients = tape.backward(outputs.sum, Array::full({3, 5}, 1, DType::float64));
  for (const Gradients::Entry& entry : gradients.entries()) {
    EXPECT_EQ(entry.reached, entry.slot == x.slot());
  }
}

TEST(AddNorm, IsOneRecord) {
  Tape tape;
  const Var x = tape.leaf(random_array({3, 5}, 1));
  const ResidualNorm outputs = add_layer_norm(x, x, kNone, kNone);
  EXPECT_EQ(tape.size(), 1u);
  EXPECT_EQ(tape.record_at(0).outputs, 2);
  EXPECT_EQ(tape.maker_of(outputs.sum.slot()), tape.maker_of(outputs.normalised.slot()));
}

TEST(AddNorm, RefusesWhatDoesNotFit) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  const Array row = Array::zeros({3}, DType::float32);
  const Array four = Array::zeros({4}, DType::float32);
  const Array wide = Array::zeros({2, 3}, DType::float64);
  expect_throws<ShapeError>([&] { (void)add_layer_norm(x, row, kNone, kNone); },
                            "add_layer_norm: branch is [3], expected the shape of x [2, 3]");
  expect_throws<ShapeError>(
      [&] { (void)add_rms_norm(x, wide, kNone); },
      "add_rms_norm: operands are float32 [2, 3] and float64 [2, 3], expected one dtype");
  expect_throws<ShapeError>([&] { (void)add_layer_norm(x, x, four, kNone); },
                            "add_layer_norm: gain is [4], x [2, 3] needs [3]");
  expect_throws<ShapeError>([&] { (void)add_layer_norm(x, x, kNone, four); },
                            "add_layer_norm: shift is [4], x [2, 3] needs [3]");
  expect_throws<ShapeError>([&] { (void)add_rms_norm(x, x, four); },
                            "add_rms_norm: gain is [4], x [2, 3] needs [3]");
  const Array none = Array::zeros({3, 0}, DType::float32);
  expect_throws<ShapeError>([&] { (void)add_rms_norm(none, none, kNone); },
                            "add_rms_norm: x [3, 0] has nothing to normalise over, its last axis "
                            "must hold at least 1");
}

}  // namespace attune::add_norm_test
