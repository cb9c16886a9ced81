#include "attune/autodiff/gradcheck.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "autodiff/sample_ops.h"

namespace attune::gradcheck_test {

using sample::exp;
using sample::map;
using sample::multiply;
using sample::product;

// y = sin x, whose backward multiplies by `factor` too much.
Var sine(const Var& x, double factor) {
  const Array y = map(x.value(), [](auto value) { return std::sin(value); });
  const Array slope = map(x.value(), [](auto value) { return std::cos(value); });
  return record("sine", {x}, y, [slope, factor](const Array& dy, InputGradients& dx) {
    const Array scale = Array::full(dy.shape(), factor, dy.dtype());
    dx.add(0, product(product(dy, slope), scale));
  });
}

std::vector<Array> inputs() {
  return {Array::from({2, 3}, {-1, -0.5, 0.25, 0.5, 1, 1.5}, DType::float64),
          Array::from({2, 3}, {3, 2, 1, -1, -2, -3}, DType::float64)};
}
Var right(std::span<const Var> x) { return multiply(sine(x[0], 1), exp(x[1])); }
Var wrong(std::span<const Var> x) { return multiply(sine(x[0], 2), exp(x[1])); }

TEST(Gradcheck, ARightBackwardPasses) {
  const GradcheckResult result = gradcheck(right, inputs());
  EXPECT_TRUE(result.passes()) << result.worst;
  EXPECT_GT(result.max_error, 0);
  EXPECT_TRUE(gradcheck_directions(right, inputs(), 5).passes());
}

TEST(Gradcheck, ABackwardTwiceTooLargeIsFound) {
  const GradcheckResult result = gradcheck(wrong, inputs());
  EXPECT_FALSE(result.passes());
  EXPECT_NEAR(result.max_error, 0.5, 0.01);
  EXPECT_EQ(result.worst.find("input 0 [2, 3] at "), 0u) << result.worst;
  EXPECT_FALSE(gradcheck_directions(wrong, inputs(), 5).passes(1e-2));
}

// An error of one part in a hundred thousand is ten times the tolerance.
TEST(Gradcheck, ASmallErrorIsFound) {
  const auto slightly = [](std::span<const Var> x) { return sine(x[0], 1 + 1e-5); };
  const GradcheckResult result = gradcheck(slightly, {inputs()[0]});
  EXPECT_FALSE(result.passes());
  EXPECT_TRUE(result.passes(1e-4));
}

// Its sum is constant: only weights that differ show that two elements are swapped in the backward.
TEST(Gradcheck, AnErrorThatCancelsInThePlainSumIsFound) {
  const auto swapped = [](std::span<const Var> x) {
    return record("swap", {x[0]}, x[0].value(), [](const Array& dy, InputGradients& dx) {
      dx.add(0, Array::from({2}, {dy.at({1}), dy.at({0})}, DType::float64));
    });
  };
  EXPECT_FALSE(gradcheck(swapped, {Array::from({2}, {1, 2}, DType::float64)}).passes(0.1));
}

TEST(Gradcheck, AGradientThatIsDeclaredAwayIsFound) {
  const auto denied = [](std::span<const Var> x) {
    return record("denied", {x[0], x[1]}, product(x[0].value(), x[1].value()),
                  [b = x[1].value()](const Array& dy, InputGradients& dx) {
                    dx.add(0, product(dy, b));
                    dx.none(1);
                  });
  };
  const GradcheckResult result = gradcheck(denied, inputs());
  EXPECT_NEAR(result.max_error, 1, 1e-6);
  EXPECT_EQ(result.worst.find("input 1"), 0u) << result.worst;
}

TEST(Gradcheck, ANaNIsAnInfiniteError) {
  const auto broken = [](std::span<const Var> x) {
    return sine(x[0], std::numeric_limits<double>::quiet_NaN());
  };
  EXPECT_EQ(gradcheck(broken, {inputs()[0]}).max_error, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(gradcheck_directions(broken, {inputs()[0]}, 1).passes(1e9));
}

TEST(Gradcheck, TheInputsAreLeftAsTheyWere) {
  const std::vector<Array> given = inputs();
  (void)gradcheck(right, given);
  EXPECT_EQ(given[0].to_vector(), inputs()[0].to_vector());
  EXPECT_EQ(given[1].to_vector(), inputs()[1].to_vector());
}

TEST(Gradcheck, EmptyInputsPass) {
  const Array empty = Array::zeros({0, 3}, DType::float64);
  EXPECT_TRUE(gradcheck(right, {empty, empty}).passes(0));
}

TEST(Gradcheck, WantsFloat64) {
  try {
    (void)gradcheck(right, {inputs()[0], inputs()[1].cast(DType::float32)});
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "gradcheck: input 1 is not float64");
  }
}

TEST(Gradcheck, AFunctionWithoutGradientIsAnError) {
  const auto constant = [](std::span<const Var> x) { return x[0].detached(); };
  EXPECT_THROW((void)gradcheck(constant, {inputs()[0]}), UsageError);
}

}  // namespace attune::gradcheck_test
