#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/train/training_step.h"
#include "model/model_test.h"

// What the tests of training share.
namespace attune {

// Random tokens; every third target, and all of examples in `silent`, are not scored.
[[nodiscard]] inline Batch random_batch(std::int64_t examples, std::int64_t time,
                                        std::uint64_t seed,
                                        const std::vector<std::int64_t>& silent = {}) {
  Batch batch{examples, time, random_tokens(examples * time, seed),
              random_tokens(examples * time, seed + 1000)};
  for (std::int64_t i = 0; i < examples * time; ++i) {
    const bool is_silent = std::ranges::find(silent, i / time) != silent.end();
    if (is_silent || i % 3 == 2) batch.targets[static_cast<std::size_t>(i)] = kIgnore;
  }
  return batch;
}

// Batches one after the other as one.
[[nodiscard]] inline Batch joined(const std::vector<Batch>& parts) {
  Batch whole{0, parts.front().time, {}, {}};
  for (const Batch& part : parts) {
    whole.examples += part.examples;
    whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
    whole.targets.insert(whole.targets.end(), part.targets.begin(), part.targets.end());
  }
  return whole;
}

inline void expect_gradients_near(const StepResult& actual, const StepResult& expected,
                                  double tolerance) {
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (std::size_t i = 0; i < actual.gradients.size(); ++i) {
    ASSERT_EQ(actual.gradients[i].is_null(), expected.gradients[i].is_null()) << "parameter " << i;
    expect_near(actual.gradients[i], expected.gradients[i], tolerance);
  }
  EXPECT_NEAR(actual.loss_nats, expected.loss_nats, tolerance);
  EXPECT_NEAR(actual.gradient_norm, expected.gradient_norm, tolerance);
  EXPECT_EQ(actual.scored, expected.scored);
  EXPECT_EQ(actual.correct, expected.correct);
}

}  // namespace attune
