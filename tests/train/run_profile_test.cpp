#include "attune/train/run_profile.h"

#include <algorithm>
#include <numeric>

#include "train/tiny_run.h"

namespace attune::run_profile_test {

using std::chrono::milliseconds;
using Rows = std::vector<RunProfile::Row>;

const RunProfile::Row* find(const Rows& rows, std::string_view name) {
  const auto found =
      std::ranges::find_if(rows, [&](const RunProfile::Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

double seconds_of(const Rows& rows, std::string_view name) {
  const RunProfile::Row* row = find(rows, name);
  return row == nullptr ? -1 : row->seconds;
}

double sum_of(const Rows& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const RunProfile::Row& row) { return sum + row.seconds; });
}

// Two threads with a shard each, of which one is done earlier; then phases of the whole run.
TEST(RunProfile, RowsAreTheTimeOfAllThreads) {
  std::chrono::steady_clock::time_point now;
  RunProfile profile([&now] { return now; });
  profile.begin(2, 2);
  {
    const RunProfile::Timer all(&profile, &profile.in_shards());
    const RunProfile::Timer first(&profile, &profile.shard(0).busy_seconds);
    Tape tape;
    tape.set_value_observer(&profile.shard(0).ops);
    profile.shard(0).ops.begin();
    now += milliseconds(30);
    const Array one = Array::scalar(1, DType::float32);
    const Var x = tape.leaf(one);
    (void)record("op", {x}, one, [](const Array&, InputGradients&) {});
    const RunProfile::Timer drawing(&profile, &profile.shard(0).drawing_seconds);
    now += milliseconds(10);
  }
  profile.shard(1).busy_seconds = 0.025;  // of 40 ms; nothing of it in operations
  const auto spend = [&](Phase phase, int count) {
    const RunProfile::Timer timer(&profile, phase);
    now += milliseconds(count);
  };
  spend(Phase::drawing, 1);
  spend(Phase::reducing, 2);
  spend(Phase::optimizer, 3);
  spend(Phase::evaluation, 50);
  spend(Phase::evaluation, 50);
  spend(Phase::checkpoint, 5);
  now += milliseconds(7);
  profile.end();

  EXPECT_NEAR(profile.elapsed_seconds(), 0.158, 1e-12);
  const Rows rows = profile.by_op();
  EXPECT_NEAR(seconds_of(rows, "op"), 0.030, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "drawing batches"), 0.010 + 2 * 0.001, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "reducing gradients"), 2 * 0.002, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "optimizer"), 2 * 0.003, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "evaluation"), 2 * 0.100, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "checkpoint"), 2 * 0.005, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "waiting"), 0.015, 1e-12);
  EXPECT_NEAR(seconds_of(rows, "other"), 0.025 + 2 * 0.007, 1e-12);
  EXPECT_NEAR(sum_of(rows), 2 * 0.158, 1e-12);
  EXPECT_EQ(rows.front().name, "evaluation");
  EXPECT_TRUE(std::ranges::is_sorted(rows, std::ranges::greater{}, &RunProfile::Row::seconds));
}

TEST(RunProfile, TimersWithoutAProfileDoNothing) {
  double sum = 3;
  { const RunProfile::Timer timer(nullptr, &sum); }
  { const RunProfile::Timer timer(nullptr, Phase::optimizer); }
  EXPECT_EQ(sum, 3);
}

TEST(RunProfile, CountsEveryOperationOfARun) {
  for (const std::int64_t threads : {1, 3}) {
    SCOPED_TRACE(threads);
    RunConfig config = tiny();
    config.threads = threads;
    const Directory directory;
    TinyRun run(config, &*directory);
    RunProfile profile;
    run.trainer.set_profile(&profile);
    (void)run();
    const Rows ops = profile.by_op();
    // One layer in 4 shards, 10 steps; attention writes the 8 numbers of each token in a float.
    ASSERT_NE(find(ops, "attention"), nullptr);
    const OpCost& attention = find(ops, "attention")->cost;
    EXPECT_EQ(attention.calls, 4 * 10);
    EXPECT_EQ(attention.output_bytes, 10 * 6 * run.task->time() * 8 * 4);
    EXPECT_GT(attention.forward_seconds, 0);
    EXPECT_GT(attention.backward_seconds, 0);
    for (const char* phase : {"drawing batches", "reducing gradients", "optimizer", "evaluation",
                              "checkpoint", "other"}) {
      EXPECT_GT(seconds_of(ops, phase), 0) << phase;
    }
    EXPECT_EQ(find(ops, "waiting") != nullptr, threads > 1);
    const double whole = static_cast<double>(threads) * profile.elapsed_seconds();
    EXPECT_NEAR(sum_of(ops), whole, 1e-9);

    const Rows modules = profile.by_module();
    for (const char* module :
         {"block.0.attention", "block.0.ffn", "block.0.norm_1", "block.0.norm_2", "block.0",
          "token_embedding", "final_norm", "head", "loss"}) {
      EXPECT_GT(seconds_of(modules, module), 0) << module;
    }
    EXPECT_NEAR(sum_of(modules), whole, 1e-9);
  }
}

TEST(RunProfile, ChangesNoBitOfARun) {
  RunConfig config = tiny();
  config.threads = 2;
  config.grad_accum = 2;
  TinyRun plain(config);
  TinyRun measured(config);
  RunProfile profile;
  measured.trainer.set_profile(&profile);
  EXPECT_EQ(plain().parameter_hash, measured().parameter_hash);
  EXPECT_EQ(plain.recorder.lines, measured.recorder.lines);
}

TEST(RunProfile, BeginsAgainWithEachRun) {
  RunConfig config = tiny();
  RunProfile profile;
  for (int repetition = 0; repetition < 2; ++repetition) {
    TinyRun run(config);
    run.trainer.set_profile(&profile);
    (void)run();
    EXPECT_EQ(find(profile.by_op(), "attention")->cost.calls, 40);
  }
}

}  // namespace attune::run_profile_test
