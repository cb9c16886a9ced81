#include "attune/autodiff/tape.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "attune/array/buffer_pool.h"
#include "attune/core/error.h"
#include "autodiff/sample_ops.h"

namespace attune::record_test {

using sample::add;
using sample::exp;
using sample::multiply;

std::int64_t live_bytes() { return buffer_pool::statistics().live_bytes; }

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Array scalar(double value) { return Array::scalar(value, DType::float64); }

TEST(Record, SeveralOutputsEachGetTheirGradient) {
  Tape tape;
  const Var x = tape.leaf(Array::from({2}, {3, 5}, DType::float64));
  const auto [first, second] = sample::split_pair(x);
  const Var y = multiply(first, multiply(second, second));
  EXPECT_EQ(y.value().item(), 75);
  EXPECT_EQ(tape.backward(y)[x].to_vector(), (std::vector<double>{25, 30}));
}

TEST(Record, AnOutputThatTheLossDoesNotReachHasANullGradient) {
  Tape tape;
  const Var x = tape.leaf(Array::from({2}, {3, 5}, DType::float64));
  const auto [first, second] = sample::split_pair(x);
  EXPECT_EQ(tape.backward(multiply(second, second))[x].to_vector(), (std::vector<double>{0, 10}));
  EXPECT_EQ(first.value().item(), 3);
}

TEST(Record, ABackwardThatForgetsAnInputIsAnErrorNamingIt) {
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const PathGuard guard = tape.enter("block.0.attention");
  const Var y = record("forgetful", {x, x}, scalar(1),
                       [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
  EXPECT_EQ(message_of<InternalError>([&] { (void)tape.backward(y); }),
            "forgetful: its backward gives no gradient for input 1, which needs one (in "
            "block.0.attention)");
}

TEST(Record, AnInputDeclaredWithoutGradientIsNotForgotten) {
  Tape tape;
  const Var x = tape.leaf(scalar(2));
  const Var index = tape.leaf(scalar(1));
  const Var y = record("gather", {x, index}, scalar(2), [](const Array& dy, InputGradients& dx) {
    dx.add(0, dy);
    dx.none(1);
  });
  const Gradients gradients = tape.backward(y);
  EXPECT_EQ(gradients[x].item(), 1);
  EXPECT_EQ(gradients[index].item(), 0);
}

// What a wrong backward of an operation written by a user says.
std::string message_of_wrong_backward(Array gradient, int input) {
  Tape tape;
  const Var x = tape.leaf(Array::zeros({2, 3}, DType::float32));
  const Var y =
      record("wrong", {x}, Array::scalar(0, DType::float32),
             [gradient, input](const Array&, InputGradients& dx) { dx.add(input, gradient); });
  return message_of<InternalError>([&] { (void)tape.backward(y); });
}

TEST(Record, AWrongGradientIsAnErrorThatNamesTheOperation) {
  EXPECT_EQ(message_of_wrong_backward(Array::zeros({3, 2}, DType::float32), 0),
            "wrong: its backward gives input 0 of float32 [2, 3] a gradient [3, 2]");
  EXPECT_EQ(message_of_wrong_backward(Array::zeros({2, 3}, DType::float64), 0),
            "wrong: its backward gives input 0 of float32 [2, 3] a gradient of float64");
  EXPECT_EQ(message_of_wrong_backward(Array(), 0),
            "wrong: its backward gives input 0 of float32 [2, 3] a null gradient");
  EXPECT_EQ(message_of_wrong_backward(Array::zeros({2, 3}, DType::float32), 1),
            "wrong: its backward names input 1 of 1");
  EXPECT_EQ(message_of_wrong_backward(Array::zeros({2, 3}, DType::float32), -1),
            "wrong: its backward names input -1 of 1");
}

TEST(Record, MoreInputsThanAListHoldsAreGivenAsASpan) {
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const auto backward = [](const Array& dy, InputGradients& dx) {
    for (int i = 0; i < 9; ++i) dx.add(i, dy);
  };
  EXPECT_THROW((void)record("many", {x, x, x, x, x, x, x, x, x}, scalar(9), backward), UsageError);
  const std::vector<const Var*> inputs(9, &x);
  EXPECT_EQ(tape.backward(record("many", inputs, scalar(9), backward))[x].item(), 9);
}

// Writes its gradient in place, as matrix products do with beta = 0 or 1.
Var scaled_in_place(const Var& x, double factor) {
  return record("scaled_in_place", {x}, scalar(factor * x.value().item()),
                [factor](const Array& dy, InputGradients& dx) {
                  const auto [gradient, holds_sum] = dx.accumulate(0);
                  const double term = factor * dy.item();
                  double& place = gradient.mutable_data<double>()[0];
                  place = holds_sum ? place + term : term;
                });
}

TEST(Record, AccumulateAddsInPlaceToWhatIsThere) {
  Tape tape;
  const Var x = tape.leaf(scalar(2));
  const Var y = add(add(scaled_in_place(x, 3), scaled_in_place(x, 5)), x);
  EXPECT_EQ(y.value().item(), 18);
  EXPECT_EQ(tape.backward(y)[x].item(), 9);
}

TEST(Record, AccumulateDoesNotWriteIntoASharedGradient) {
  Tape tape;
  const Var x = tape.leaf(scalar(2));
  const Var z = tape.leaf(scalar(7));
  const Var y = add(scaled_in_place(x, 3), add(x, z));  // x and z share the seed's array
  const Gradients gradients = tape.backward(y);
  EXPECT_EQ(gradients[x].item(), 4);
  EXPECT_EQ(gradients[z].item(), 1);
}

TEST(Record, AccumulateOfAConstantIsAnError) {
  Tape tape;
  const Var x = tape.leaf(scalar(2));
  const Var constant(scalar(1));
  const Var y = record("impolite", {x, constant}, scalar(0),
                       [](const Array&, InputGradients& dx) { (void)dx.accumulate(1); });
  EXPECT_EQ(message_of<InternalError>([&] { (void)tape.backward(y); }),
            "impolite: accumulate() of input 1, which is constant; ask needs() first");
}

// Takes note of what it sees.
class Notes final : public ValueObserver, public GradientObserver {
 public:
  void on_record(const Tape&, const RecordView& record, std::span<const Array> outputs) override {
    values.push_back(std::string(record.path) + "/" + record.op.text + " " +
                     to_string(outputs[0].shape()));
  }
  void on_output_gradients(const Tape& tape, const RecordView& record,
                           std::span<const Array> dy) override {
    std::string line = std::string(record.path) + "/" + record.op.text + " of";
    for (const std::int32_t input : record.inputs) {
      line += " " + (input < 0 ? "constant" : tape.describe(input));
    }
    for (const Array& gradient : dy) {
      line += gradient.is_null() ? " null" : " " + to_string(gradient.shape());
    }
    gradients.push_back(line);
  }
  std::vector<std::string> values;
  std::vector<std::string> gradients;
};

TEST(Record, ObserversSeeEveryRecordWithItsPath) {
  Notes notes;
  Tape tape;
  tape.set_value_observer(&notes);
  const Parameter weight("head.weight", 0, Array::from({2}, {1, 2}, DType::float64), {});
  const Var x = tape.leaf(Array::from({2}, {3, 5}, DType::float64));
  Var y;
  {
    const PathGuard block = tape.enter("block.0");
    y = exp(x);
    const PathGuard attention = tape.enter("block.0.attention");
    y = multiply(y, tape.parameter(weight));
  }
  const auto [first, second] = sample::split_pair(y);
  const Var loss = multiply(first, Var(scalar(2)));
  EXPECT_EQ(notes.values,
            (std::vector<std::string>{"block.0/exp [2]", "block.0.attention/multiply [2]",
                                      "/split_pair []", "/multiply []"}));
  (void)tape.backward(loss, &notes);
  EXPECT_EQ(notes.gradients,
            (std::vector<std::string>{"/multiply of split_pair constant []",
                                      "/split_pair of multiply [] null",
                                      "block.0.attention/multiply of exp parameter head.weight [2]",
                                      "block.0/exp of leaf [2]"}));
}

TEST(Record, WhatTheLossDoesNotDependOnIsNotVisited) {
  Notes notes;
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const Var unused = exp(x);
  (void)tape.backward(multiply(x, x), &notes);
  EXPECT_EQ(notes.gradients, (std::vector<std::string>{"/multiply of leaf leaf []"}));
}

TEST(Record, ARecordKnowsItsPlaceInTheGraph) {
  Tape tape;
  const Var x = tape.leaf(Array::zeros({5}, DType::float32));
  const Var y = exp(x);
  const Var z = add(y, x);
  const RecordView view = tape.record_at(1);
  EXPECT_STREQ(view.op.text, "add");
  EXPECT_EQ(view.inputs[0], y.slot());
  EXPECT_EQ(view.first_output, z.slot());
  EXPECT_EQ(tape.maker_of(y.slot()), 0u);
  EXPECT_EQ(tape.maker_of(x.slot()), tape.size());
  EXPECT_EQ(tape.shape_of(z.slot()), (Shape{5}));
}

TEST(Record, PathGuardWithoutATapeDoesNothing) {
  const PathGuard guard(nullptr, "block.0");
  EXPECT_EQ(exp(Var(scalar(0))).value().item(), 1);
}

// Closures of every size come and go in the tape's own storage; what they hold is destroyed exactly
// once.
TEST(Record, ClosuresOfAnySizeAreKeptAndDestroyed) {
  struct Large {
    std::array<double, 9000> numbers;  // 72,000 bytes: more than a chunk
  };
  const std::int64_t before = live_bytes();
  Tape tape;
  for (int round = 0; round < 3; ++round) {
    tape.clear();
    Var y = tape.leaf(scalar(1));
    const Var x = y;
    for (int i = 0; i < 1000; ++i) {
      const Array saved = scalar(1);
      if (i % 100 == 7) {
        Large large{};
        large.numbers[8999] = 1;
        y = record("large", {y}, scalar(1), [saved, large](const Array&, InputGradients& dx) {
          dx.add(0, Array::scalar(large.numbers[8999] * saved.item(), DType::float64));
        });
      } else {
        y = record("small", {y}, scalar(1), [saved](const Array& dy, InputGradients& dx) {
          dx.add(0, saved.item() == 1 ? dy : Array());
        });
      }
    }
    if (round < 2) {
      EXPECT_EQ(tape.backward(y)[x].item(), 1);
    }
  }
  tape.clear();
  EXPECT_EQ(live_bytes(), before);
}

}  // namespace attune::record_test
