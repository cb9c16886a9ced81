#include "attune/autodiff/tape.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attune/array/buffer_pool.h"
#include "attune/core/error.h"
#include "autodiff/sample_ops.h"

namespace attune::tape_test {

using sample::add;
using sample::exp;
using sample::multiply;
using sample::subtract;
using sample::sum;

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

// d = (a a + a a)(a a) = 2 a^4: 32 and 8 a^3 = 64 at a = 2.
TEST(Tape, AValueUsedTwiceGetsTheSumOfBothGradients) {  // B26
  Tape tape;
  const Var a = tape.leaf(scalar(2));
  const Var b = multiply(a, a);
  const Var c = add(b, b);
  const Var d = multiply(c, b);
  EXPECT_EQ(d.value().item(), 32);
  EXPECT_EQ(tape.backward(d)[a].item(), 64);
}

TEST(Tape, AValueMinusItselfHasGradientZero) {  // B26
  Tape tape;
  const Var x = tape.leaf(Array::from({2}, {3, 5}, DType::float64));
  const Gradients gradients = tape.backward(sum(subtract(x, x)));
  EXPECT_EQ(gradients[x].to_vector(), (std::vector<double>{0, 0}));
}

// y = x + exp(x): 1 + e^x.
TEST(Tape, AResidualBranchAddsToTheIdentity) {  // B26
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const Gradients gradients = tape.backward(add(x, exp(x)));
  EXPECT_NEAR(gradients[x].item(), 1 + std::exp(1.0), 1e-12);
}

// Where every gradient is the same array, handed on by several additions, sums must not write into
// what is shared.
TEST(Tape, GradientsThatShareStorageAreSummedWithoutHarm) {
  Tape tape;
  const Var x = tape.leaf(Array::from({3}, {1, 2, 3}, DType::float64));
  const Var z = tape.leaf(Array::from({3}, {4, 5, 6}, DType::float64));
  const Var once = add(x, z);
  const Var twice = add(once, x);
  const Var thrice = add(twice, once);
  const Array seed = Array::from({3}, {1, 10, 100}, DType::float64);
  const Gradients gradients = tape.backward(thrice, seed);
  EXPECT_EQ(gradients[x].to_vector(), (std::vector<double>{3, 30, 300}));
  EXPECT_EQ(gradients[z].to_vector(), (std::vector<double>{2, 20, 200}));
  EXPECT_EQ(seed.to_vector(), (std::vector<double>{1, 10, 100}));
}

// Operands of sum(a * b * c) with a [2, 1], b [1, 3], c [2, 3]; gradients by hand.
TEST(Tape, AGradientIsSummedOverWhatWasBroadcast) {  // B28
  Tape tape;
  const Var a = tape.leaf(Array::from({2, 1}, {1, 2}, DType::float64));
  const Var b = tape.leaf(Array::from({1, 3}, {10, 20, 30}, DType::float64));
  const Array c = Array::from({2, 3}, {1, 2, 3, 4, 5, 6}, DType::float64);
  const Array value = Array::scalar(140 + 2 * 320, DType::float64);
  // d/da = b c and d/db = a c, both in the broadcast shape [2, 3].
  const Array da = Array::from({2, 3}, {10, 40, 90, 40, 100, 180}, DType::float64);
  const Array db = Array::from({2, 3}, {1, 2, 3, 8, 10, 12}, DType::float64);
  const Var loss = record("sum_abc", {a, b}, value, [da, db](const Array&, InputGradients& dx) {
    dx.add(0, da);
    dx.add(1, db);
  });
  const Gradients gradients = tape.backward(loss);
  EXPECT_EQ(gradients[a].shape(), (Shape{2, 1}));
  EXPECT_EQ(gradients[a].to_vector(), (std::vector<double>{140, 320}));
  EXPECT_EQ(gradients[b].shape(), (Shape{1, 3}));
  EXPECT_EQ(gradients[b].to_vector(), (std::vector<double>{9, 12, 15}));
}

struct BroadcastCase {
  Shape from;
  Shape to;
  double expected;
};
// How often an element was repeated, for a gradient of ones.
TEST(Tape, GradientsTakeTheShapeOfTheirInput) {  // B28
  for (const auto& [from, to, expected] : std::vector<BroadcastCase>{{{}, {2}, 2},
                                                                     {{2, 1, 3}, {2, 4, 3}, 4},
                                                                     {{4, 1}, {2, 4, 3}, 6},
                                                                     {{3}, {2, 4, 3}, 8},
                                                                     {{3}, {3, 3}, 3},
                                                                     {{3, 1}, {3, 3}, 3},
                                                                     {{1, 1}, {}, 1}}) {
    Tape tape;
    const Var x = tape.leaf(Array::zeros(from, DType::float32));
    const Array ones = Array::full(to.rank() == 0 ? from : to, 1, DType::float32);
    const Var y = record("repeat", {x}, Array::zeros({}, DType::float32),
                         [ones](const Array&, InputGradients& dx) { dx.add(0, ones); });
    const Array gradient = tape.backward(y)[x];
    ASSERT_EQ(gradient.shape(), from) << to_string(to);
    for (const double value : gradient.to_vector()) EXPECT_EQ(value, expected) << to_string(to);
  }
}

// The rows of [3, 3] are told from its columns.
TEST(Tape, EqualExtentsAreSummedAlongTheRightAxis) {  // B28
  Tape tape;
  const Var row = tape.leaf(Array::zeros({3}, DType::float32));
  const Var column = tape.leaf(Array::zeros({3, 1}, DType::float32));
  const Array dy = Array::from({3, 3}, {1, 2, 3, 10, 20, 30, 100, 200, 300});
  const Var y = record("both", {row, column}, Array::zeros({}, DType::float32),
                       [dy](const Array&, InputGradients& dx) {
                         dx.add(0, dy);
                         dx.add(1, dy);
                       });
  const Gradients gradients = tape.backward(y);
  EXPECT_EQ(gradients[row].to_vector(), (std::vector<double>{111, 222, 333}));
  EXPECT_EQ(gradients[column].to_vector(), (std::vector<double>{6, 60, 600}));
}

// Runs on a thread whose stack has 1 MiB.
void with_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
  pthread_t thread;
  const auto run = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr int kChain = 200000;

Var chain(const Var& x, const Var& z) {
  Var y = x;
  for (int i = 0; i < kChain; ++i) y = add(y, z);
  return y;
}

TEST(Tape, AChainOfTwoHundredThousandAddsRunsBackwardOnASmallStack) {  // B29
  const std::int64_t before = live_bytes();
  with_small_stack([] {
    Tape tape;
    const Var x = tape.leaf(scalar(1));
    const Var z = tape.leaf(scalar(0.001));
    const Var y = chain(x, z);
    EXPECT_NEAR(y.value().item(), 201, 1e-6);
    const Gradients gradients = tape.backward(y);
    EXPECT_EQ(gradients[x].item(), 1);
    EXPECT_EQ(gradients[z].item(), kChain);
  });
  EXPECT_EQ(live_bytes(), before);
}

TEST(Tape, AChainOfTwoHundredThousandAddsIsDestroyedOnASmallStack) {  // B29
  const std::int64_t before = live_bytes();
  with_small_stack([] {
    Tape tape;
    const Var x = tape.leaf(scalar(1));
    EXPECT_EQ(chain(x, x).value().item(), 1 + kChain);
    EXPECT_EQ(tape.size(), static_cast<std::size_t>(kChain));
  });
  EXPECT_EQ(live_bytes(), before);
}

// The classic leak is `total += loss`, which keeps every step's graph.
TEST(Tape, TwoThousandStepsReturnToTheBaselineEach) {  // B29
  Tape tape;
  const Array w = Array::full({19, 23}, 0.01, DType::float32);
  const std::int64_t before = live_bytes();
  double total = 0;
  std::int64_t steady = 0;
  for (int step = 0; step < 2000; ++step) {
    tape.clear();
    {
      const Var x = tape.leaf(w);
      const Var loss = sum(exp(multiply(x, x)));
      const Gradients gradients = tape.backward(loss);
      total += loss.value().item();
    }
    ASSERT_EQ(live_bytes(), before) << step;
    if (step == 1) steady = buffer_pool::statistics().system_allocations;
  }
  EXPECT_EQ(buffer_pool::statistics().system_allocations, steady);
  EXPECT_NEAR(total, 2000 * 19 * 23 * std::exp(0.0001), 1);
}

TEST(Tape, AClearedTapeHoldsNoArray) {
  const std::int64_t before = live_bytes();
  Tape tape;
  { const Var y = exp(exp(tape.leaf(Array::zeros({1000}, DType::float32)))); }
  EXPECT_GT(live_bytes(), before);
  tape.clear();
  EXPECT_EQ(live_bytes(), before);
  EXPECT_EQ(tape.size(), 0u);
}

TEST(Tape, AValueThatNoClosureCapturedIsFreedWithItsLastVar) {
  Tape tape;
  const Var x = tape.leaf(Array::zeros({1024}, DType::float32));
  const std::int64_t before = live_bytes();
  const Var y = add(add(add(x, x), x), x);
  EXPECT_EQ(live_bytes() - before, 4096);  // y alone: an addition saves nothing
}

TEST(Tape, ACapturedValueLivesUntilItsBackwardRan) {
  Tape tape;
  const Var x = tape.leaf(Array::zeros({1024}, DType::float32));
  const std::int64_t before = live_bytes();
  std::optional<Var> y = sum(exp(exp(x)));
  EXPECT_EQ(live_bytes() - before, 2 * 4096 + 64);  // exp saves its result; the sum is a scalar
  { const Gradients gradients = tape.backward(*y); }
  EXPECT_EQ(live_bytes() - before, 64);
  y.reset();
  EXPECT_EQ(live_bytes(), before);
}

TEST(Tape, ConstantsRecordNothing) {
  Tape tape;
  const Var x = tape.leaf(scalar(3));
  const Var constant = multiply(Var(scalar(2)), Var(scalar(5)));
  EXPECT_EQ(constant.tape(), nullptr);
  EXPECT_EQ(tape.size(), 0u);
  const Var y = multiply(x, constant);
  EXPECT_EQ(tape.size(), 1u);
  EXPECT_EQ(tape.record_at(0).inputs[1], -1);
  EXPECT_EQ(tape.backward(y)[x].item(), 10);
}

TEST(Tape, ConstantsKeepNothingAlive) {
  const Var x(Array::zeros({1024}, DType::float32));
  const std::int64_t before = live_bytes();
  const Var y = exp(exp(exp(x)));
  EXPECT_EQ(live_bytes() - before, 4096);
}

TEST(Tape, ADetachedValueStopsTheGradient) {
  Tape tape;
  const Var x = tape.leaf(scalar(3));
  const Var y = multiply(x, x.detached());
  EXPECT_EQ(tape.backward(y)[x].item(), 3);
}

TEST(Tape, ASecondBackwardIsAnError) {
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const Var y = exp(x);
  (void)tape.backward(y);
  EXPECT_EQ(message_of<UsageError>([&] { (void)tape.backward(y); }),
            "backward: the tape is spent, backward() has run on it; call clear() and record again");
  EXPECT_THROW((void)exp(x), UsageError);
  EXPECT_THROW((void)tape.leaf(scalar(1)), UsageError);
  EXPECT_NEAR(y.value().item(), std::exp(1.0), 1e-12);
}

TEST(Tape, ANonScalarNeedsASeed) {
  Tape tape;
  const Var x = tape.leaf(Array::from({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Var y = add(x, x);
  EXPECT_EQ(message_of<UsageError>([&] { (void)tape.backward(y); }),
            "backward: the value [2, 3] is not a scalar; give a seed of its shape");
  EXPECT_THROW((void)tape.backward(y, Array::zeros({3, 2}, DType::float32)), ShapeError);
  EXPECT_THROW((void)tape.backward(y, Array::zeros({2, 3}, DType::float64)), ShapeError);
  const Gradients gradients = tape.backward(y, Array::full({2, 3}, 0.5, DType::float32));
  EXPECT_EQ(gradients[x].at({1, 2}), 1);
}

TEST(Tape, AConstantCannotBeDifferentiated) {
  Tape tape;
  EXPECT_EQ(message_of<UsageError>([&] { (void)tape.backward(Var(scalar(1))); }),
            "backward: the value [] was not recorded on this tape since its last clear()");
}

TEST(Tape, AnOperationOnTwoTapesIsAnError) {
  Tape one;
  Tape two;
  const Var a = one.leaf(scalar(1));
  const Var b = two.leaf(scalar(2));
  EXPECT_EQ(message_of<UsageError>([&] { (void)add(a, b); }),
            "add: its inputs were recorded on two tapes");
  EXPECT_THROW((void)two.backward(exp(a)), UsageError);
}

TEST(Tape, AVarOfBeforeTheClearCanBeReadNotDifferentiated) {
  Tape tape;
  const Var old = exp(tape.leaf(scalar(0)));
  tape.clear();
  EXPECT_EQ(old.value().item(), 1);
  EXPECT_FALSE(tape.is_current(old));
  EXPECT_EQ(message_of<UsageError>([&] { (void)add(old, tape.leaf(scalar(1))); }),
            "add: an input [] was recorded before the tape's clear(); it can be read, not "
            "differentiated");
  EXPECT_THROW((void)tape.backward(old), UsageError);
}

// A tape on the stack of a loop stands where the one before it stood.
TEST(Tape, AVarThatOutlivedItsTapeIsRefusedByTheNextOneInItsPlace) {
  std::optional<Tape> tape(std::in_place);
  const Var old = exp(tape->leaf(scalar(0)));
  tape.reset();
  tape.emplace();
  const Var x = tape->leaf(scalar(1));
  EXPECT_THROW((void)add(old, x), UsageError);
  EXPECT_EQ(old.value().item(), 1);
}

// x = 1, y = exp(x), then y is written to: the closure's y is shared, so the write is refused and
// the gradient is e.
TEST(Tape, ASavedValueCannotBeChangedInPlace) {  // B30
  Tape tape;
  const Var x = tape.leaf(scalar(1));
  const Var y = exp(x);
  Array mine = y.value();
  EXPECT_THROW((void)mine.mutable_data<double>(), UsageError);
  EXPECT_NEAR(tape.backward(y)[x].item(), std::exp(1.0), 1e-12);
}

}  // namespace attune::tape_test
