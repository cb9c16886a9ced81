#include "attune/autodiff/checkpoint.h"

#include <string>
#include <vector>

#include "attune/nn/scope.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/unary.h"
#include "ops/op_test.h"

namespace attune::checkpoint_test {

// Three inputs, of which the second may be constant and the third is not used.
Var expression(std::span<const Var> x) { return exp(x[0] * x[1]) + x[0] * x[0] * 0.5; }

std::vector<Array> inputs() {
  return {random_array({3, 4}, 1), random_array({3, 4}, 2), random_array({2}, 3)};
}

TEST(Checkpoint, ValuesAndGradientsAreBitwiseThoseWithoutIt) {
  const auto run = [](bool checkpoints) {
    Tape tape;
    std::vector<Var> x;
    for (const Array& input : inputs()) x.push_back(tape.leaf(input));
    const Var* pointers[] = {&x[0], &x[1], &x[2]};
    const Var y = checkpoints
                      ? checkpoint(tape, pointers,
                                   [](Tape&, std::span<const Var> in) { return expression(in); })
                      : expression(x);
    EXPECT_EQ(tape.size(), checkpoints ? 1U : 5U);
    const Gradients gradients = tape.backward(sum(y * y));
    std::vector<std::vector<double>> result{y.value().to_vector()};
    for (const Var& leaf : x) result.push_back(gradients[leaf].to_vector());
    for (const Gradients::Entry& entry : gradients.entries())
      result.push_back({entry.reached ? 1.0 : 0.0});
    return result;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, GradientsMatchFiniteDifferences) {
  const auto f = [](std::span<const Var> x) {
    if (x[0].tape() == nullptr) return expression(x);
    const Var* pointers[] = {&x[0], &x[1], &x[2]};
    return checkpoint(*x[0].tape(), pointers,
                      [](Tape&, std::span<const Var> in) { return expression(in); });
  };
  expect_gradients_match(f, inputs());
}

TEST(Checkpoint, ConstantsStayConstant) {
  Tape tape;
  const Var x = tape.leaf(random_array({2, 2}, 1));
  const Var constant = random_array({2, 2}, 2);
  const Var* pointers[] = {&constant, &x};
  int calls = 0;
  const Var y = checkpoint(tape, pointers, [&](Tape& inner, std::span<const Var> in) {
    ++calls;
    EXPECT_EQ(in[0].tape(), nullptr);
    EXPECT_EQ(in[1].tape(), &inner);
    EXPECT_NE(&inner, &tape);
    return in[0] * in[1];
  });
  const Gradients gradients = tape.backward(sum(y));
  EXPECT_EQ(calls, 2);
  expect_near(gradients[x], constant.value(), 0);
}

TEST(Checkpoint, OfConstantsAloneIsAConstantAndRecordsNothing) {
  Tape tape;
  const Var constant = random_array({2}, 2);
  const Var* pointers[] = {&constant};
  const Var y =
      checkpoint(tape, pointers, [](Tape&, std::span<const Var> in) { return in[0] * 2; });
  EXPECT_EQ(y.tape(), nullptr);
  EXPECT_EQ(tape.size(), 0U);
  expect_near(y.value(), (constant * 2).value(), 0);
}

TEST(Checkpoint, NestsAndSumsParametersOfBothRuns) {
  ParameterStore store;
  const Scope scope(store, 1, DType::float64);
  const Parameter& weight = scope.parameter("weight", {2}, Initializer::constant(1.5), {});
  Tape tape;
  const Var x = tape.leaf(Array::from({2}, {2, 3}, DType::float64));
  const auto inside = [&](Tape& t, std::span<const Var> in) { return in[0] * t.parameter(weight); };
  const Var* pointers[] = {&x};
  const Var y = checkpoint(tape, pointers, [&](Tape& t, std::span<const Var> in) {
    const Var* again[] = {&in[0]};
    return checkpoint(t, again, inside) * t.parameter(weight);
  });
  const Gradients gradients = tape.backward(sum(y));  // x w^2
  expect_near(gradients[x], {2.25, 2.25}, 0);
  expect_near(gradients[weight], {6, 9}, 0);
}

TEST(Checkpoint, NamesTheModuleThatItRunsIn) {
  struct Paths : ValueObserver {
    std::vector<std::string> seen;
    void on_record(const Tape&, const RecordView& record, std::span<const Array>) override {
      seen.emplace_back(std::string(record.path) + ":" + record.op.text);
    }
  } paths;
  Tape tape;
  tape.set_value_observer(&paths);
  const Var x = tape.leaf(random_array({2}, 1));
  const Var* pointers[] = {&x};
  Var y;
  {
    const PathGuard guard = tape.enter("block.3");
    y = checkpoint(tape, pointers, [](Tape&, std::span<const Var> in) { return exp(in[0]); });
  }
  static_cast<void>(tape.backward(y, Array::full({2}, 1, DType::float64)));
  EXPECT_EQ(paths.seen,
            (std::vector<std::string>{"block.3:exp", "block.3:checkpoint", "block.3:exp"}));
}

TEST(Checkpoint, KeepsTheInputsAlone) {
  const auto live_after_forward = [](bool checkpoints) {
    Tape tape;
    const Var x = tape.leaf(random_array({1000}, 1));
    const Var* pointers[] = {&x};
    const auto f = [](Tape&, std::span<const Var> in) { return exp(exp(exp(exp(in[0])))); };
    const std::int64_t before = buffer_pool::statistics().live_bytes;
    const Var y = checkpoints ? checkpoint(tape, pointers, f) : f(tape, std::span(&x, 1));
    return buffer_pool::statistics().live_bytes - before;
  };
  const std::int64_t one = live_after_forward(true);  // y
  EXPECT_EQ(live_after_forward(false), 4 * one);
}

}  // namespace attune::checkpoint_test
