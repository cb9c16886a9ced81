#include "attune/ops/loss.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/softmax.h"
#include "ops/op_test.h"

namespace attune::loss_test {

using Targets = std::vector<std::int32_t>;

// sum over scored rows of -sum_j q_j ln p_j in long double.
double naive_loss(const Array& logits, const Targets& targets, double smoothing) {
  const std::vector<double> x = logits.to_vector();
  const auto n = static_cast<std::size_t>(logits.shape().last());
  long double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == kIgnore) continue;
    long double z = 0;
    for (std::size_t j = 0; j < n; ++j) z += std::exp(static_cast<long double>(x[row * n + j]));
    for (std::size_t j = 0; j < n; ++j) {
      const double on_target = static_cast<std::size_t>(targets[row]) == j ? 1 - smoothing : 0;
      const double q = on_target + smoothing / static_cast<double>(n);
      loss -= q * (x[row * n + j] - std::log(z));
    }
  }
  return static_cast<double>(loss);
}

Targets some_targets(std::int64_t rows, std::int64_t classes) {
  Targets targets;
  for (std::int64_t row = 0; row < rows; ++row)
    targets.push_back(row % 5 == 3 ? kIgnore : static_cast<std::int32_t>((row * 7 + 2) % classes));
  return targets;
}

TEST(CrossEntropy, EqualsTheDefinitionForEveryTailLength) {
  for (std::int64_t classes = 1; classes <= 37; ++classes) {
    const Array x = random_array({2, 7, classes}, 1, DType::float64, -3, 3);
    const Targets targets = some_targets(14, classes);
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      const double expected = naive_loss(x, targets, smoothing);
      EXPECT_NEAR(cross_entropy(x, targets, smoothing).loss_sum.value().item(), expected, 1e-12);
      const CrossEntropy single = cross_entropy(x.cast(DType::float32), targets, smoothing);
      EXPECT_NEAR(single.loss_sum.value().item(), expected, 1e-5 * (1 + expected));
      EXPECT_EQ(single.loss_sum.shape(), Shape{});
      EXPECT_EQ(single.loss_sum.dtype(), DType::float32);
      EXPECT_EQ(single.scored, 11);
    }
  }
}

TEST(CrossEntropy, GradientsMatchFiniteDifferences) {
  for (const std::int64_t classes : {1, 2, 5, 13, 37}) {
    for (const double smoothing : {0.0, 0.1}) {
      const Targets targets = some_targets(6, classes);
      expect_gradients_match(
          [&](std::span<const Var> in) {
            return cross_entropy(in[0], targets, smoothing).loss_sum;
          },
          {random_array({2, 3, classes}, 4, DType::float64, -2, 2)});
    }
  }
}

// The target distribution of each row; all 0 where the target is kIgnore.
Array target_distribution(const Shape& shape, const Targets& targets, double smoothing,
                          DType dtype) {
  const auto n = static_cast<std::size_t>(shape.last());
  std::vector<double> q(targets.size() * n, 0.0);
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] == kIgnore) continue;
    for (std::size_t j = 0; j < n; ++j) q[row * n + j] = smoothing / static_cast<double>(n);
    q[row * n + static_cast<std::size_t>(targets[row])] += 1 - smoothing;
  }
  return Array::from(shape, q, dtype);
}

TEST(CrossEntropy, EqualsItsCompositionForwardAndBackward) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double tolerance = dtype == DType::float32 ? 2e-6 : 1e-14;
    for (const std::int64_t classes : {1, 2, 7, 13, 65}) {
      for (const double smoothing : {0.0, 0.1}) {
        const Array x = random_array({2, 7, classes}, 5, dtype, -3, 3);
        const Targets targets = some_targets(14, classes);
        const Array q = target_distribution(x.shape(), targets, smoothing, dtype);
        const auto composed = [&](std::span<const Var> in) {
          return negate(sum(log_softmax(in[0]) * Var(q)));
        };
        const auto fused = [&](std::span<const Var> in) {
          return cross_entropy(in[0], targets, smoothing).loss_sum;
        };
        const Var constant(x);
        expect_near(fused({&constant, 1}).value(), composed({&constant, 1}).value(), tolerance);
        const Array seed = Array::scalar(0.37, dtype);
        expect_near(gradients_of(fused, {x}, seed)[0], gradients_of(composed, {x}, seed)[0],
                    tolerance);
      }
    }
  }
}

Array gradient_of(const Array& logits, const Targets& targets, double seed = 1) {
  Tape tape;
  const Var x = tape.leaf(logits);
  const CrossEntropy result = cross_entropy(x, targets);
  return tape.backward(result.loss_sum, Array::scalar(seed, logits.dtype()))[x];
}

// ln(e^1000 + 1) - 0 = 1000 to the last bit of both types.
TEST(CrossEntropy, IsExactForLargeLogits) {  // B19
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array x = Array::from({1, 2}, std::vector<double>{1000, 0}, dtype);
    EXPECT_EQ(cross_entropy(x, Targets{1}).loss_sum.value().item(), 1000);
    expect_near(gradient_of(x, {1}), std::vector<double>{1, -1}, 0);
    EXPECT_EQ(cross_entropy(x, Targets{0}).loss_sum.value().item(), 0);
    expect_near(gradient_of(x, {0}), std::vector<double>{0, 0}, 0);
    const Array equal = Array::full({1, 3}, 88.8, dtype);
    EXPECT_NEAR(cross_entropy(equal, Targets{2}).loss_sum.value().item(), std::log(3.0), 1e-6);
  }
}

TEST(CrossEntropy, IgnoredRowsCountForNothing) {  // B20
  const Array x = Array::zeros({2, 5}, DType::float32);
  const CrossEntropy none = cross_entropy(x, Targets{kIgnore, kIgnore});
  EXPECT_EQ(none.loss_sum.value().item(), 0);
  EXPECT_EQ(none.scored, 0);
  EXPECT_EQ(none.correct, 0);
  expect_near(gradient_of(x, {kIgnore, kIgnore}), std::vector<double>(10, 0.0), 0);
  const CrossEntropy one = cross_entropy(x, Targets{2, kIgnore});
  EXPECT_NEAR(one.loss_sum.value().item(), std::log(5.0), 1e-6);
  EXPECT_EQ(one.scored, 1);
}

TEST(CrossEntropy, AnIgnoredRowMayHoldNaN) {
  const Array x = Array::from({2, 2}, {std::nan(""), 1, 0, 0});
  EXPECT_NEAR(cross_entropy(x, Targets{kIgnore, 0}).loss_sum.value().item(), std::log(2.0), 1e-6);
  expect_near(gradient_of(x, {kIgnore, 0}), std::vector<double>{0, 0, -0.5, 0.5}, 1e-7);
}

TEST(CrossEntropy, ANaNLogitMakesTheLossNaN) {
  const Array x = Array::from({1, 3}, {0, std::nan(""), 1});
  EXPECT_TRUE(std::isnan(cross_entropy(x, Targets{0}).loss_sum.value().item()));
}

TEST(CrossEntropy, CountsTheFirstOfEqualLargestLogits) {
  const Array x = Array::from({5, 3}, {1, 3, 3,     // first largest 1
                                       1, 3, 3,     //
                                       2, 2, 2,     // 0
                                       -1, -2, -1,  // 0
                                       0, 1, 2});   // 2
  const CrossEntropy result = cross_entropy(x, Targets{1, 2, 0, 2, 2});
  EXPECT_EQ(result.correct, 3);
  EXPECT_EQ(result.scored, 5);
}

TEST(CrossEntropy, TheSeedScalesTheGradient) {
  const Array x = Array::from({1, 2}, std::vector<double>{0, 0}, DType::float64);
  expect_near(gradient_of(x, {1}, 0.25), std::vector<double>{0.125, -0.125}, 1e-15);
}

TEST(CrossEntropy, SumsInDouble) {
  constexpr std::int64_t kRows = 300007;
  const CrossEntropy result = cross_entropy(Array::zeros({kRows, 2}, DType::float32),
                                            Targets(static_cast<std::size_t>(kRows), 1));
  const double expected = std::log(2.0) * kRows;
  EXPECT_NEAR(result.loss_sum.value().item(), expected, 1e-7 * expected);
}

TEST(CrossEntropy, TakesNoRows) {
  const CrossEntropy result = cross_entropy(Array::zeros({0, 5}, DType::float32), Targets{});
  EXPECT_EQ(result.loss_sum.value().item(), 0);
  EXPECT_EQ(result.scored, 0);
}

template <class E>
void expect_error(const Array& logits, const Targets& targets, double smoothing,
                  const std::string& text) {
  try {
    (void)cross_entropy(logits, targets, smoothing);
    FAIL() << text;
  } catch (const E& error) {
    EXPECT_EQ(error.what(), text);
  }
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {  // B20
  const Array x = Array::zeros({2, 5}, DType::float32);
  expect_error<ValueError>(x, {0, -4}, 0, "cross_entropy: target -4 of row 1 is outside [0, 5)");
  expect_error<ValueError>(x, {5, 0}, 0, "cross_entropy: target 5 of row 0 is outside [0, 5)");
  expect_error<ShapeError>(x, {0}, 0,
                           "cross_entropy: logits [2, 5] has 2 rows but there are 1 targets");
  expect_error<ShapeError>(Array::scalar(1, DType::float32), {0}, 0,
                           "cross_entropy: logits [] is a scalar, it needs [..., classes]");
  expect_error<ValueError>(x, {0, 0}, 1.5, "cross_entropy: label_smoothing 1.5 is outside [0, 1]");
}

// y = 2x with the loss sum(x^2): dy/dx = 2 and weight * 2x.
TEST(AttachLoss, AddsItsGradientToThatOfTheValue) {
  Tape tape;
  const Var x = tape.leaf(Array::from({3}, {1, -2, 0.5}, DType::float64));
  const Var y = attach_loss(x * 2, sum(x * x), 0.3);
  expect_near(y.value(), std::vector<double>{2, -4, 1}, 0);
  const Gradients gradients = tape.backward(sum(y), Array::scalar(10, DType::float64));
  expect_near(gradients[x], std::vector<double>{20 + 0.6, 20 - 1.2, 20 + 0.3}, 1e-14);
}

TEST(AttachLoss, LeavesConstantsAlone) {
  const Var x(Array::from({2}, {1, 2}, DType::float64));
  EXPECT_EQ(attach_loss(x, sum(x), 1).tape(), nullptr);
  Tape tape;
  const Var y = tape.leaf(Array::from({2}, {1, 2}, DType::float64));
  const Gradients gradients =
      tape.backward(sum(attach_loss(y, sum(x), 1)), Array::scalar(1, DType::float64));
  expect_near(gradients[y], std::vector<double>{1, 1}, 0);
}

TEST(AttachLoss, RefusesALossOfManyValues) {
  const Var x(Array::zeros({2}, DType::float64));
  try {
    (void)attach_loss(x, x, 1);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "attach_loss: loss [2] is no scalar");
  }
}

}  // namespace attune::loss_test
