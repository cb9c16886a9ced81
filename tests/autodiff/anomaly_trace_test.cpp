#include "attune/autodiff/anomaly_trace.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "attune/autodiff/checkpoint.h"
#include "attune/autodiff/observer_list.h"
#include "autodiff/sample_ops.h"

namespace attune::anomaly_trace_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// dx = dy / x: of 0 the value is -inf, and so is the gradient of sqrt below.
Var my_log(const Var& x) {
  return record("my_log", {x}, sample::map(x.value(), [](auto v) { return std::log(v); }),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0, sample::zip(dy, x, [](auto g, auto v) { return g / v; }));
                });
}
// dx = dy / (2 sqrt(x)): finite forward, infinite backward at 0.
Var my_sqrt(const Var& x) {
  return record("my_sqrt", {x}, sample::map(x.value(), [](auto v) { return std::sqrt(v); }),
                [x = x.value()](const Array& dy, InputGradients& dx) {
                  dx.add(0,
                         sample::zip(dy, x, [](auto g, auto v) { return g / (2 * std::sqrt(v)); }));
                });
}
// Puts `other` where x is negative, as ops/select.h does.
Var my_where(const Var& x, double other) {
  return record(
      "where", {x},
      sample::map(x.value(),
                  [other](auto v) { return v < 0 ? static_cast<decltype(v)>(other) : v; }),
      [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
}

class AnomalyTraceTest : public testing::Test {
 protected:
  AnomalyTraceTest() { tape_.set_value_observer(&trace_); }
  const Anomaly& anomaly() {
    EXPECT_TRUE(trace_.anomaly());
    return *trace_.anomaly();
  }
  void differentiate(const Var& y) {
    (void)tape_.backward(y, Array::full(y.shape(), 1, y.dtype()), &trace_);
  }
  Tape tape_;
  AnomalyTrace trace_;
};

TEST_F(AnomalyTraceTest, NamesOpModulePlaceAndInputsOfAForwardFault) {
  const Var x = tape_.leaf(Array::from({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Var y = tape_.leaf(Array::from({2, 3}, {1, 2, 3, 4, 0, 0}));
  const Var difference = sample::subtract(sample::add(x, x), x);
  {
    const PathGuard guard(&tape_, "block.0.ffn");
    (void)my_log(sample::multiply(difference, y));
  }
  EXPECT_EQ(to_string(anomaly()),
            "my_log in block.0.ffn gives -inf at [1, 1], 2 of 6 elements of its output [2, 3]");
  EXPECT_EQ(anomaly().kind, Anomaly::Kind::forward);
  ASSERT_EQ(anomaly().inputs.size(), 1u);
  EXPECT_EQ(anomaly().inputs[0].maker, "multiply");
  EXPECT_EQ(anomaly().inputs[0].path, "block.0.ffn");
  EXPECT_EQ(anomaly().inputs[0].largest, 16);  // 4 * 4
  // multiply <- subtract <- add <- leaf, each along the largest input that an op made
  ASSERT_EQ(anomaly().chain.size(), 3u);
  EXPECT_EQ(anomaly().chain[0].maker, "subtract");
  EXPECT_EQ(anomaly().chain[0].largest, 6);
  EXPECT_EQ(anomaly().chain[1].maker, "add");
  EXPECT_EQ(anomaly().chain[1].largest, 12);
  EXPECT_EQ(anomaly().chain[2].maker, "input");
  EXPECT_EQ(anomaly().chain[2].largest, std::nullopt);
}

TEST_F(AnomalyTraceTest, NamesTheOpWhoseBackwardMadeTheFault) {
  const Var x = tape_.leaf(Array::from({3}, {4, 0, 9}));
  Var root;
  {
    const PathGuard guard(&tape_, "block.1");
    root = my_sqrt(sample::add(x, x));
  }
  // Both read the root; only the gradient behind it is infinite.
  const Var y = sample::add(sample::multiply(root, root), root);
  EXPECT_FALSE(trace_.anomaly());
  differentiate(y);
  EXPECT_EQ(to_string(anomaly()),
            "the backward pass of my_sqrt in block.1 gives inf at [1], 1 of 3 elements of the "
            "gradient of its input 0 [3]");
  ASSERT_EQ(anomaly().outputs.size(), 1u);
  EXPECT_NEAR(*anomaly().outputs[0].largest_gradient, 1 + 2 * std::sqrt(18), 1e-5);
  EXPECT_EQ(anomaly().inputs[0].largest, 18);
  // multiply, then the last add, at which the gradient started.
  ASSERT_EQ(anomaly().chain.size(), 2u);
  EXPECT_EQ(anomaly().chain[0].maker, "multiply");
  EXPECT_EQ(anomaly().chain[1].maker, "add");
  EXPECT_EQ(anomaly().chain[1].largest_gradient, 1);
}

TEST_F(AnomalyTraceTest, NamesAPoisonedParameterWhereItIsFirstRead) {
  ParameterStore store;
  Parameter& weight = store.create("head.weight", Array::from({2, 2}, {1, 2, NAN, 4}));
  const PathGuard guard(&tape_, "head");
  const Var w = tape_.parameter(weight);
  EXPECT_FALSE(trace_.anomaly());
  (void)sample::add(w, w);
  EXPECT_EQ(to_string(anomaly()),
            "parameter head.weight [2, 2] is not finite: nan at [1, 0], 1 of 4 elements (first "
            "read by add in head)");
  EXPECT_EQ(anomaly().kind, Anomaly::Kind::parameter);
  EXPECT_EQ(anomaly().inputs[0].largest, 4);  // of the finite elements
}

TEST_F(AnomalyTraceTest, KeepsTheFirstOfSeveral) {
  const Var x = tape_.leaf(Array::from({1}, {0}));
  const Var y = my_log(x);
  differentiate(sample::multiply(y, y));
  EXPECT_EQ(anomaly().op, "my_log");
  EXPECT_EQ(anomaly().kind, Anomaly::Kind::forward);
}

TEST_F(AnomalyTraceTest, LetsMasksHoldMinusInfinity) {
  const Var x = tape_.leaf(Array::from({2}, {-1, 3}));
  const Var masked = sample::add(my_where(x, -kInfinity), x);
  EXPECT_FALSE(trace_.anomaly());
  // What is no -inf any more is told: -inf - -inf.
  (void)sample::subtract(masked, masked);
  EXPECT_EQ(to_string(anomaly()), "subtract gives nan at [0], 1 of 2 elements of its output [2]");
}

TEST_F(AnomalyTraceTest, ReportsAnInfinityThatIsNoMask) {
  (void)my_where(tape_.leaf(Array::from({2}, {-1, 3})), kInfinity);
  EXPECT_EQ(anomaly().op, "where");
}

TEST_F(AnomalyTraceTest, LooksInsideACheckpoint) {
  const Var x = tape_.leaf(Array::from({2}, {4, 0}));
  const Var* inputs[] = {&x};
  const PathGuard guard(&tape_, "block.2");
  const Var y = checkpoint(tape_, inputs, [](Tape&, std::span<const Var> leaves) {
    return my_sqrt(sample::add(leaves[0], leaves[0]));
  });
  EXPECT_FALSE(trace_.anomaly());
  differentiate(y);
  EXPECT_EQ(anomaly().op, "my_sqrt");
  EXPECT_EQ(anomaly().path, "block.2");
}

TEST_F(AnomalyTraceTest, TellsMagnitudesOfAFinitePassByRecordAndMaker) {
  const Var x = tape_.leaf(Array::from({2}, {-3, 2}));
  const Var y = sample::multiply(x, x);
  differentiate(sample::add(y, y));
  EXPECT_FALSE(trace_.anomaly());
  EXPECT_EQ(trace_.seen(y.slot(), "multiply").largest, 9);
  EXPECT_EQ(trace_.seen(y.slot(), "multiply").largest_gradient, 2);
  EXPECT_EQ(trace_.seen(y.slot(), "add").largest, std::nullopt);
  trace_.clear();
  EXPECT_EQ(trace_.seen(y.slot(), "multiply").largest, std::nullopt);
}

// Elements before, in and behind full vector registers, in both precisions.
TEST_F(AnomalyTraceTest, FindsAFaultAtAnyPlace) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (std::int64_t place = 0; place < 37; ++place) {
      std::vector<double> values(37, 1.0);
      values[static_cast<std::size_t>(place)] = place % 2 == 0 ? kInfinity : NAN;
      trace_.clear();
      tape_.clear();
      const Var x = tape_.leaf(Array::zeros({37}, dtype));
      const Array wrong = Array::from({37}, values, dtype);
      (void)record("wrong", {x}, wrong, [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
      const std::string what = (place % 2 == 0 ? "inf at [" : "nan at [") + std::to_string(place);
      EXPECT_EQ(anomaly().value.nonfinite, what + "], 1 of 37 elements");
    }
  }
}

// Whoever stands in a list sees what it would see alone.
TEST(ObserverList, IsNobodyWhereItIsEmptyAndEverybodyElsewhere) {
  ObserverList list;
  EXPECT_EQ(list.values(), nullptr);
  EXPECT_EQ(list.gradients(), nullptr);
  AnomalyTrace first;
  AnomalyTrace second;
  list.add(&first, nullptr);
  EXPECT_EQ(list.gradients(), nullptr);
  list.add(&second, &second);
  Tape tape;
  tape.set_value_observer(list.values());
  const Var x = tape.leaf(Array::from({1}, {0}));
  (void)tape.backward(my_sqrt(x), list.gradients());
  EXPECT_FALSE(first.anomaly());
  ASSERT_TRUE(second.anomaly());
  EXPECT_EQ(second.anomaly()->op, "my_sqrt");
  list.clear();
  EXPECT_EQ(list.values(), nullptr);
}

}  // namespace attune::anomaly_trace_test
