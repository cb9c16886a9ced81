#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "train/tiny_run.h"

// One computation in every build: Release, Debug and the sanitizers' builds compile these sums
// differently and have to agree on them.
namespace attune::builds_test {

RunConfig twenty_steps() {
  RunConfig config = RunConfig::defaults_for("copy");
  config.model.positions = "rope";
  config.model.dropout = 0.1;
  config.batch_size = 16;
  config.max_iters = 20;
  config.schedule.warmup_iters = 5;
  config.eval_interval = 20;
  config.eval_iters = 1;
  config.threads = 2;
  return config;
}

std::vector<double> losses_of_a_run() {
  TinyRun run(twenty_steps());
  static_cast<void>(run());
  std::vector<double> losses;
  for (const StepRecord& record : run.recorder.records)
    if (record.update) losses.push_back(record.update->train_loss);
  return losses;
}

// Of a Release build with g++ 12.
constexpr double kLosses[] = {2.536545846, 2.532633987, 2.502027848, 2.464258398, 2.480914982,
                              2.451416728, 2.411514701, 2.385266873, 2.343729150, 2.363397124,
                              2.388809080, 2.314282700, 2.326245885, 2.352725101, 2.311356066,
                              2.320874841, 2.315868478, 2.307896327, 2.253191518, 2.356926285};

TEST(Builds, AgreeOnTheLossesOfTwentySteps) {
  const std::vector<double> losses = losses_of_a_run();
  ASSERT_EQ(losses.size(), std::size(kLosses));
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], kLosses[step], 1e-5 * kLosses[step]) << "step " << step;
}

TEST(Builds, AgreeWithThemselvesBitForBit) { EXPECT_EQ(losses_of_a_run(), losses_of_a_run()); }

}  // namespace attune::builds_test
