#include "attune/observe/profile_table.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace attune::profile_table_test {

using std::chrono::milliseconds;

// 2 threads and 400 ms; a forward pass of two operations and an evaluation.
class ProfileTableTest : public testing::Test {
 protected:
  ProfileTableTest() : profile_([this] { return now_; }) {
    profile_.begin(2, 1);
    OpProfile& ops = profile_.shard(0).ops;
    Tape tape;
    tape.set_value_observer(&ops);
    const Var x = tape.leaf(Array::zeros({384}, DType::float32));
    ops.begin();
    {
      const PathGuard guard = tape.enter("block.0");
      for (int i = 0; i < 1200; ++i) run("linear", x, milliseconds(0));
      run("linear", x, milliseconds(40));
    }
    run("softmax", x, milliseconds(100));
    const RunProfile::Timer timer(&profile_, Phase::evaluation);
    now_ += milliseconds(250);
  }
  void SetUp() override {
    now_ += milliseconds(10);
    profile_.end();
  }

 private:
  void run(OpName name, const Var& x, milliseconds takes) {
    now_ += takes;
    (void)record(name, {x}, Array::zeros({384}, DType::float32),
                 [](const Array&, InputGradients&) {});
  }
  std::chrono::steady_clock::time_point now_;

 protected:
  RunProfile profile_;
};

// 2 x 400 = 40 + 100 + 2 x 250 + 160: milliseconds, by hand. Phases that took no time are left out.
TEST_F(ProfileTableTest, ListsOperationsAndPhasesByTime) {
  EXPECT_EQ(profile_table(profile_, ProfileTable::op),
            "profile of 0.4s on 2 threads, whose times are added up; operations: CPU time over all "
            "shards; (in parentheses: no operation)\n"
            "op            calls  forward ms  backward ms     ms    bytes    share\n"
            "(evaluation)                                  500.0            62.5 %\n"
            "(other)                                       160.0            20.0 %\n"
            "softmax           1       100.0          0.0  100.0  1.5 KiB   12.5 %\n"
            "linear        1,201        40.0          0.0   40.0  1.8 MiB    5.0 %\n"
            "total         1,202       140.0          0.0  800.0  1.8 MiB  100.0 %\n");
}

TEST_F(ProfileTableTest, ListsModules) {
  const std::string table = profile_table(profile_, ProfileTable::module);
  EXPECT_NE(table.find("\nmodule "), std::string::npos) << table;
  EXPECT_NE(table.find("\nmodel "), std::string::npos) << table;
  EXPECT_NE(table.find("\nblock.0 "), std::string::npos) << table;
  EXPECT_EQ(table.find("softmax"), std::string::npos) << table;
}

TEST_F(ProfileTableTest, IsEmptyWhenOff) {
  EXPECT_EQ(profile_table(profile_, ProfileTable::off), "");
}

// Two steps; the outputs are 0 3 4 and the gradients that reach them 1 1 1, by hand.
TEST(ProfileTable, ShowsSizesOfValuesAndGradientsWhereMeasured) {
  RunProfile profile;
  profile.measure_values(true);
  profile.begin(1, 1);
  for (int step = 0; step < 2; ++step) {
    profile.count_step();
    OpProfile& ops = profile.shard(0).ops;
    Tape tape;
    tape.set_value_observer(&ops);
    ops.begin();
    const Var x = tape.leaf(Array::zeros({3}, DType::float32));
    const Var y = record("op", {x}, Array::from({3}, {0, 3, 4}),
                         [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
    (void)tape.backward(y, Array::full({3}, 1, DType::float32), &ops);
    ops.end();
  }
  profile.end();
  const std::vector<RunProfile::Row> rows = profile.by_op();
  const RunProfile::Row& row = *std::ranges::find(rows, "op", &RunProfile::Row::name);
  EXPECT_NEAR(row.output_rms, std::sqrt(25.0 / 3), 1e-12);
  EXPECT_NEAR(row.gradient_norm, std::sqrt(3.0), 1e-12);
  const std::string table = profile_table(profile, ProfileTable::op);
  EXPECT_NE(table.find("output rms  grad norm\n"), std::string::npos) << table;
  EXPECT_NE(table.find("2.89       1.73\n"), std::string::npos) << table;
}

TEST(ProfileTable, OfNothingDividesByNothing) {
  const std::string table = profile_table(RunProfile(), ProfileTable::op);
  EXPECT_NE(table.find("\ntotal "), std::string::npos) << table;
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
}

}  // namespace attune::profile_table_test
