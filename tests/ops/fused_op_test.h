#pragma once

#include <cstddef>
#include <vector>

#include "ops/op_test.h"

namespace attune {

// The same numbers, and NaN where there is NaN.
inline void expect_same_numbers(const Array& actual, const Array& expected) {
  ASSERT_EQ(to_string(actual.shape()), to_string(expected.shape()));
  ASSERT_EQ(actual.dtype(), expected.dtype());
  const std::vector<double> left = actual.to_vector();
  const std::vector<double> right = expected.to_vector();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) && std::isnan(right[i])) continue;
    EXPECT_EQ(left[i], right[i]) << "at " << i;
  }
}

// A fused operation against the operations that it stands for: value with and without a tape, and
// all gradients, to the last bit.
inline void expect_equals_composition(const DifferentiableFunction& fused,
                                      const DifferentiableFunction& composed,
                                      const std::vector<Array>& inputs) {
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  {
    const std::vector<Var> constants(inputs.begin(), inputs.end());
    const Array value = composed(constants).value();
    const Var constant = fused(constants);
    EXPECT_EQ(constant.tape(), nullptr);
    expect_same_numbers(constant.value(), value);

    const Array seed = random_array(value.shape(), 99, value.dtype());
    const std::vector<Array> actual = gradients_of(fused, inputs, seed);
    const std::vector<Array> expected = gradients_of(composed, inputs, seed);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE("gradient of input " + std::to_string(i));
      expect_same_numbers(actual[i], expected[i]);
    }
  }
  EXPECT_EQ(buffer_pool::statistics().live_bytes, before) << "live bytes";
}

}  // namespace attune
