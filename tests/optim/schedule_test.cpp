#include "attune/optim/schedule.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune::schedule_test {

ScheduleConfig recipe(const std::string& shape) {
  return {.shape = shape, .lr = 1e-3, .min_lr = 1e-4, .warmup_iters = 100, .decay_iters = 2000};
}

// Reference values: the formulas of the papers and of nanoGPT's get_lr, evaluated in Python's
// double arithmetic.
TEST(Schedule, CosineFollowsNanoGpt) {
  const ScheduleConfig schedule = recipe("cosine");
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 9.900990099009901e-06);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 50), 0.000504950495049505);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.0009900990099009901);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.001);
  EXPECT_NEAR(learning_rate(schedule, 101), 0.0009999993848585915, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 575), 0.0008681980515339464, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 1050), 0.00055, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 1999), 0.00010000061514140841, 1e-17);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2000), 0.0001);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5000), 0.0001);
}

TEST(Schedule, LinearIsAStraightLineToTheMinimum) {
  const ScheduleConfig schedule = recipe("linear");
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.0009900990099009901);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 0.001);
  EXPECT_NEAR(learning_rate(schedule, 575), 0.000775, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 1050), 0.00055, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 1999), 0.00010047368421052636, 1e-17);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2000), 0.0001);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3000), 0.0001);
}

TEST(Schedule, NoamPeaksAtTheEndOfWarmup) {
  const ScheduleConfig schedule = recipe("noam");
  EXPECT_NEAR(learning_rate(schedule, 0), 1e-5, 1e-18);
  EXPECT_NEAR(learning_rate(schedule, 49), 5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule, 99), 1e-3, 1e-18);
  EXPECT_NEAR(learning_rate(schedule, 100), 0.000995037190209989, 1e-17);
  EXPECT_NEAR(learning_rate(schedule, 399), 5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule, 9999), 1e-4, 1e-18);
}

TEST(Schedule, ConstantStaysAtTheRateAfterWarmup) {
  const ScheduleConfig schedule = recipe("constant");
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 99), 0.0009900990099009901);
  EXPECT_EQ(learning_rate(schedule, 100), 1e-3);
  EXPECT_EQ(learning_rate(schedule, 1'000'000), 1e-3);
}

TEST(Schedule, StartsAtTheFullRateWithoutWarmup) {  // B35
  for (const char* shape : {"cosine", "linear", "constant", "noam"}) {
    ScheduleConfig schedule = recipe(shape);
    schedule.warmup_iters = 0;
    EXPECT_EQ(learning_rate(schedule, 0), 1e-3) << shape;
  }
}

TEST(Schedule, WarmupAsLongAsTheDecayEndsAtTheMinimum) {  // B35
  ScheduleConfig schedule = recipe("cosine");
  schedule.warmup_iters = schedule.decay_iters = 10;
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1e-3 * 10 / 11);
  EXPECT_EQ(learning_rate(schedule, 10), 1e-4);
}

TEST(Schedule, EveryDegenerateCombinationIsFiniteAndNotNegative) {  // B35
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  int checked = 0;
  for (const char* shape : {"cosine", "linear", "constant", "noam"}) {
    for (const double lr : {0.0, 5e-324, 1e-3, 1.0, 1e308}) {
      for (const double min_lr : {0.0, 1e-4, 1e308}) {
        for (const std::int64_t warmup :
             {std::int64_t{0}, std::int64_t{1}, std::int64_t{10}, kMost}) {
          for (const std::int64_t decay : {std::int64_t{0}, std::int64_t{1}, std::int64_t{9},
                                           std::int64_t{10}, std::int64_t{11}, kMost}) {
            const ScheduleConfig schedule{shape, lr, min_lr, warmup, decay};
            for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, std::int64_t{9},
                                            std::int64_t{10}, std::int64_t{11}, kMost}) {
              const double rate = learning_rate(schedule, step);
              ASSERT_TRUE(std::isfinite(rate) && rate >= 0)
                  << shape << " lr " << lr << " min " << min_lr << " warm-up " << warmup
                  << " decay " << decay << " step " << step << ": " << rate;
              ++checked;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(checked, 4 * 5 * 3 * 4 * 6 * 6);
}

std::string error_of(const ScheduleConfig& schedule) {
  try {
    check(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, CheckNamesTheOptionAndTheValue) {
  EXPECT_EQ(error_of(recipe("cosine")), "");
  ScheduleConfig schedule = recipe("cosine");
  schedule.lr = -1;
  EXPECT_EQ(error_of(schedule), "--lr: -1 is not a finite number of at least 0");
  schedule = recipe("cosine");
  schedule.min_lr = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of(schedule), "--min-lr: inf is not a finite number of at least 0");
  schedule = recipe("cosine");
  schedule.warmup_iters = -5;
  EXPECT_EQ(error_of(schedule), "--warmup-iters: -5 is outside 0 to 2147483647");
  schedule = recipe("cosin");
  EXPECT_EQ(error_of(schedule),
            "--lr-schedule: 'cosin' is unknown; did you mean cosine? (known: cosine, linear, "
            "constant, noam)");
}

}  // namespace attune::schedule_test
