#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attune/array/array.h"
#include "attune/array/buffer_pool.h"
#include "attune/autodiff/gradcheck.h"
#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/core/random.h"

// What the tests of operations share.
namespace attune {

// Uniform in [low, high), the same for the same seed.
[[nodiscard]] inline Array random_array(const Shape& shape, std::uint64_t seed,
                                        DType dtype = DType::float64, double low = -1,
                                        double high = 1) {
  const RandomStream stream = Randomness{.seed = seed}.stream("op_test");
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = low + (high - low) * stream.uniform(i);
  }
  return Array::from(shape, values, dtype);
}

// |actual - expected| <= tolerance max(1, |expected|); infinities and NaN must be the same.
inline void expect_near(const Array& actual, const std::vector<double>& expected,
                        double tolerance = 1e-6) {
  const std::vector<double> values = actual.to_vector();
  ASSERT_EQ(values.size(), expected.size()) << "of shape " << to_string(actual.shape());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "at " << i << ": " << values[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << "at " << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
          << "at " << i;
    }
  }
}

// The shapes are the same, too.
inline void expect_near(const Array& actual, const Array& expected, double tolerance = 1e-6) {
  ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()));
  expect_near(actual, expected.to_vector(), tolerance);
}

// The gradients of f with respect to all inputs (float64) agree with finite differences, and what
// the tape held is given back.
inline void expect_gradients_match(const DifferentiableFunction& f,
                                   const std::vector<Array>& inputs, double tolerance = 1e-6) {
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  {
    const GradcheckResult result = gradcheck(f, inputs);
    EXPECT_LE(result.max_error, tolerance) << result.worst;
  }
  EXPECT_EQ(buffer_pool::statistics().live_bytes, before) << "live bytes";
}

// The gradients of sum(f(inputs)), or of sum(seed * f(inputs)), one for each input.
[[nodiscard]] inline std::vector<Array> gradients_of(const DifferentiableFunction& f,
                                                     const std::vector<Array>& inputs,
                                                     Array seed = {}) {
  Tape tape;
  std::vector<Var> leaves;
  for (const Array& input : inputs) leaves.push_back(tape.leaf(input));
  const Var y = f(leaves);
  if (seed.is_null()) seed = Array::full(y.shape(), 1, y.dtype());
  const Gradients gradients = tape.backward(y, std::move(seed));
  std::vector<Array> result;
  for (const Var& leaf : leaves) result.push_back(gradients[leaf]);
  return result;
}

// Calls f, which must throw an E of exactly this message.
template <class E, class F>
void expect_throws(F&& f, const std::string& message) {
  try {
    f();
  } catch (const E& error) {
    EXPECT_EQ(std::string(error.what()), message);
    return;
  } catch (const std::exception& error) {
    FAIL() << "threw something else: " << error.what();
  }
  FAIL() << "did not throw: " << message;
}

}  // namespace attune
