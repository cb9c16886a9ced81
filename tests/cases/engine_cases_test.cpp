#include <pthread.h>

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "attune/array/buffer_pool.h"
#include "attune/autodiff/tape.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/optim/optimizer.h"
#include "ops/op_test.h"

// Kinds of fault that others reported, in engines of automatic differentiation (B26 to B31). Most
// are tests of the tape and of single operations; here they meet those of a whole step.
namespace attune::engine_cases_test {

constexpr int kChain = 200000;

// Runs on a thread whose stack has 1 MiB.
void with_small_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
  const auto run = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// Additions save nothing; each of these products keeps both operands, so that one array after the
// other is let go. dy/dz = 200000 for factors of 1.
TEST(GraphCases, ADeepChainThatHoldsArraysRunsBackwardAndIsDestroyed) {  // B29
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  for (const bool backward : {true, false}) {
    with_small_stack([backward] {
      Tape tape;
      const Var x = tape.leaf(Array::scalar(1, DType::float64));
      const Var z = tape.leaf(Array::scalar(1, DType::float64));
      Var y = x;
      for (int i = 0; i < kChain; ++i) y = y * z;
      if (!backward) return;
      const Gradients gradients = tape.backward(y);
      EXPECT_EQ(gradients[x].item(), 1);
      EXPECT_EQ(gradients[z].item(), kChain);
    });
    EXPECT_EQ(buffer_pool::statistics().live_bytes, before);
  }
}

// Forward, an optimizer's step, then backward of y = W x: dx is the W that the forward pass saw.
TEST(GraphCases, AnOptimizerStepBeforeTheBackwardPassLeavesItsWeightsAlone) {  // B30
  ParameterStore parameters;
  Parameter& weight = parameters.create("w", Array::from({1, 2}, {3, 5}, DType::float64));
  Tape tape;
  const Var x = tape.leaf(Array::from({1, 2}, {1, 1}, DType::float64));
  const Var loss = sum(linear(x, tape.parameter(weight)));
  const Array gradient = Array::from({1, 2}, {1, 1}, DType::float64);
  ThreadPool pool(1);
  make_optimizer({.kind = "sgd", .momentum = 0, .weight_decay = 0})
      ->step(parameters, std::span(&gradient, 1), 1, 1.0, pool);
  expect_near(weight.value(), {2, 4}, 0);
  const Gradients gradients = tape.backward(loss);
  expect_near(gradients[x], {3, 5}, 0);
  expect_near(gradients[weight], {1, 1}, 0);
}

}  // namespace attune::engine_cases_test
