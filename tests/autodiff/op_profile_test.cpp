#include "attune/autodiff/op_profile.h"

#include <gtest/gtest.h>

#include "attune/autodiff/checkpoint.h"
#include "autodiff/sample_ops.h"

namespace attune::op_profile_test {

using std::chrono::milliseconds;

// A clock that only the operations of a test move.
struct Clock {
  std::chrono::steady_clock::time_point now;
  [[nodiscard]] ProfileClock read() const {
    return [this] { return now; };
  }
};

// The identity, which takes its time.
Var slow(OpName name, const Var& x, Clock& clock, milliseconds forward, milliseconds backward) {
  clock.now += forward;
  return record(name, {x}, x.value(), [&clock, backward](const Array& dy, InputGradients& dx) {
    clock.now += backward;
    dx.add(0, dy);
  });
}

Var leaf_of(Tape& tape, double value = 2) {
  return tape.leaf(Array::scalar(value, DType::float64));
}

const OpCost& cost_of(const OpProfile& profile, const char* op, const char* path = "") {
  return profile.costs().at({path, op});
}

// A tape that a profile watches, by a clock that only the operations move.
class OpProfileTest : public testing::Test {
 protected:
  OpProfileTest() { tape.set_value_observer(&profile); }
  Clock clock;
  OpProfile profile{clock.read()};
  Tape tape;
};

TEST_F(OpProfileTest, ChargesEachOperationWithItsTime) {
  const Var x = leaf_of(tape);
  clock.now += milliseconds(1000);  // before the passes
  profile.begin();
  const Var a = slow("first", x, clock, milliseconds(3), milliseconds(7));
  const Var b = slow("second", a, clock, milliseconds(20), milliseconds(50));
  const Var c = slow("first", b, clock, milliseconds(4), milliseconds(9));
  clock.now += milliseconds(1000);  // between them
  (void)tape.backward(c, &profile);
  profile.end();
  clock.now += milliseconds(1000);  // after them
  profile.end();

  ASSERT_EQ(profile.costs().size(), 2u);
  const OpCost& first = cost_of(profile, "first");
  EXPECT_EQ(first.calls, 2);
  EXPECT_NEAR(first.forward_seconds, 0.007, 1e-12);
  EXPECT_NEAR(first.backward_seconds, 0.016, 1e-12);
  EXPECT_EQ(first.output_bytes, 2 * 8);
  const OpCost& second = cost_of(profile, "second");
  EXPECT_EQ(second.calls, 1);
  EXPECT_NEAR(second.forward_seconds, 0.020, 1e-12);
  EXPECT_NEAR(second.backward_seconds, 0.050, 1e-12);
}

TEST_F(OpProfileTest, AddsUpSteps) {
  for (int step = 0; step < 3; ++step) {
    tape.clear();
    clock.now += milliseconds(1000);
    profile.begin();
    (void)tape.backward(slow("op", leaf_of(tape), clock, milliseconds(1), milliseconds(2)),
                        &profile);
    profile.end();
  }
  EXPECT_EQ(cost_of(profile, "op").calls, 3);
  EXPECT_NEAR(cost_of(profile, "op").forward_seconds, 0.003, 1e-12);
  EXPECT_NEAR(cost_of(profile, "op").backward_seconds, 0.006, 1e-12);
}

TEST_F(OpProfileTest, KeepsModulesApart) {
  const Var x = leaf_of(tape);
  profile.begin();
  Var y = slow("op", x, clock, milliseconds(1), milliseconds(10));
  for (const char* path : {"block.0", "block.1"}) {
    const PathGuard guard = tape.enter(path);
    y = slow("op", y, clock, milliseconds(2), milliseconds(20));
  }
  (void)tape.backward(y, &profile);
  profile.end();
  ASSERT_EQ(profile.costs().size(), 3u);
  EXPECT_NEAR(cost_of(profile, "op").seconds(), 0.011, 1e-12);
  EXPECT_NEAR(cost_of(profile, "op", "block.0").seconds(), 0.022, 1e-12);
  EXPECT_NEAR(cost_of(profile, "op", "block.1").seconds(), 0.022, 1e-12);
}

TEST_F(OpProfileTest, CountsTheBytesOfAllOutputs) {
  const Var pair = tape.leaf(Array::from({2}, {3, 5}, DType::float32));
  (void)sample::split_pair(pair);
  (void)sample::add(pair, pair);
  EXPECT_EQ(cost_of(profile, "split_pair").output_bytes, 2 * 4);
  EXPECT_EQ(cost_of(profile, "add").output_bytes, 8);
}

TEST_F(OpProfileTest, AnOperationThatTheLossDoesNotReachHasNoBackward) {
  const Var x = leaf_of(tape);
  profile.begin();
  const Var y = slow("used", x, clock, milliseconds(1), milliseconds(2));
  (void)slow("unused", x, clock, milliseconds(4), milliseconds(8));
  (void)tape.backward(y, &profile);
  profile.end();
  EXPECT_NEAR(cost_of(profile, "unused").forward_seconds, 0.004, 1e-12);
  EXPECT_EQ(cost_of(profile, "unused").backward_seconds, 0);
  EXPECT_NEAR(cost_of(profile, "used").backward_seconds, 0.002, 1e-12);
}

TEST_F(OpProfileTest, TellsARecomputationFromItsOperations) {
  const Var x = leaf_of(tape);
  profile.begin();
  const Var before = slow("outer", x, clock, milliseconds(1), milliseconds(2));
  const Var* inputs[] = {&before};
  const Var middle = checkpoint(tape, inputs, [this](Tape&, std::span<const Var> leaves) {
    const Var a = slow("inner", leaves[0], clock, milliseconds(100), milliseconds(1000));
    Var b = slow("inner", a, clock, milliseconds(100), milliseconds(1000));
    clock.now += milliseconds(40);
    return b;
  });
  const Var after = slow("outer", middle, clock, milliseconds(1), milliseconds(2));
  (void)tape.backward(after, &profile);
  profile.end();

  const OpCost& inner = cost_of(profile, "inner");
  EXPECT_EQ(inner.calls, 4);  // two operations, twice
  EXPECT_NEAR(inner.forward_seconds, 0.4, 1e-12);
  EXPECT_NEAR(inner.backward_seconds, 2.0, 1e-12);
  const OpCost& around = cost_of(profile, "checkpoint");
  EXPECT_NEAR(around.forward_seconds, 0.04, 1e-12);
  EXPECT_NEAR(around.backward_seconds, 0.04, 1e-12);
  const OpCost& outer = cost_of(profile, "outer");
  EXPECT_NEAR(outer.forward_seconds, 0.002, 1e-12);
  EXPECT_NEAR(outer.backward_seconds, 0.004, 1e-12);
}

}  // namespace attune::op_profile_test
