#include "train/batch_ahead.h"

#include <atomic>
#include <limits>
#include <ostream>

#include "attune/core/error.h"
#include "attune/core/thread_pool.h"
#include "train/tiny_run.h"

namespace attune::batch_ahead_test {

constexpr std::uint64_t kSeed = 7;

void expect_same(const Batch& actual, const Batch& expected) {
  EXPECT_EQ(actual.examples, expected.examples);
  EXPECT_EQ(actual.time, expected.time);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_EQ(actual.targets, expected.targets);
}

// One number per example. Throws where it is the number that example 3 of a step has in the
// training batch; says how often that was met.
class PoisonedTask final : public Task {
 public:
  PoisonedTask(std::uint64_t seed, std::uint32_t step) {
    RandomCursor cursor(Randomness{seed, step}.stream("task.train"), 3);
    poison_ = number(cursor);
  }
  [[nodiscard]] std::string_view name() const override { return "poisoned"; }
  [[nodiscard]] std::string_view description() const override { return "poisoned"; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 3; }
  [[nodiscard]] std::int64_t time() const override { return 2; }
  [[nodiscard]] double chance() const override { return 0; }
  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const std::uint32_t drawn = number(cursor);
    if (split == Split::train && drawn == poison_) {
      ++met_;
      throw ValueError("poison");
    }
    for (std::size_t t = 0; t < 2; ++t) {
      tokens[t] = static_cast<std::int32_t>(drawn % 3);
      targets[t] = static_cast<std::int32_t>(drawn / 3 % 3);
    }
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return token == kIgnore ? "_" : std::to_string(token);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
  [[nodiscard]] int met() const { return met_; }

 private:
  static std::uint32_t number(RandomCursor& cursor) {
    return cursor.below(std::numeric_limits<std::uint32_t>::max());
  }
  std::uint32_t poison_;
  mutable std::atomic<int> met_ = 0;
};

struct AheadCase {
  const char* name;
  std::int64_t micro_batches;
  std::int64_t train_size;
  int shards;
  int threads;
};
void PrintTo(const AheadCase& ahead_case, std::ostream* out) { *out << ahead_case.name; }

class Ahead : public testing::TestWithParam<AheadCase> {};

TEST_P(Ahead, BatchesAreThoseDrawnAtTheirStep) {
  const AheadCase& c = GetParam();
  const auto task = make_task({.name = "copy", .max_length = 5});
  const BatchSource source(*task, kSeed, c.train_size);
  BatchAhead ahead(source, 7, c.micro_batches, 5);
  ThreadPool pool(c.threads);
  for (std::int64_t step = 0; step < 5; ++step) {
    const std::vector<Batch> batches = ahead.take(step);
    ahead.begin(step + 1);
    for (std::int64_t m = 0; m < c.micro_batches; ++m) {
      pool.run(c.shards, [&](int s) { ahead.draw(m, s, c.shards); });
    }
    ASSERT_EQ(batches.size(), static_cast<std::size_t>(c.micro_batches));
    for (std::int64_t m = 0; m < c.micro_batches; ++m) {
      expect_same(batches[static_cast<std::size_t>(m)],
                  source.train(step, 7 * m, 7, 7 * c.micro_batches));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Ahead,
                         testing::Values(AheadCase{"OneShard", 1, 0, 1, 1},
                                         AheadCase{"ShardsOnThreads", 1, 0, 4, 2},
                                         AheadCase{"MicroBatches", 3, 0, 4, 3},
                                         AheadCase{"MoreShardsThanExamples", 2, 0, 9, 2},
                                         AheadCase{"EpochsOfAFiniteSet", 2, 25, 4, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

// What is drawn ahead, if it is complete, is not drawn again.
TEST(BatchAhead, DrawsEachExampleOnce) {
  const PoisonedTask task(kSeed, 1);
  const BatchSource source(task, kSeed, 0);
  BatchAhead ahead(source, 5, 1, 10);
  (void)ahead.take(0);
  ahead.begin(1);
  for (int s = 0; s < 2; ++s) ahead.draw(0, s, 2);
  EXPECT_EQ(task.met(), 1);
  EXPECT_THROW((void)ahead.take(1), ValueError);  // and once more, because it failed
  EXPECT_EQ(task.met(), 2);
}

TEST(BatchAhead, WhatWasNotDrawnCompletelyIsDrawnWhenTaken) {
  const auto task = make_task({.name = "copy", .max_length = 5});
  const BatchSource source(*task, kSeed, 0);
  BatchAhead ahead(source, 6, 2, 10);
  ahead.begin(1);
  ahead.draw(0, 0, 2);
  ahead.draw(1, 1, 2);
  const std::vector<Batch> batches = ahead.take(1);
  expect_same(batches[0], source.train(1, 0, 6, 12));
  expect_same(batches[1], source.train(1, 6, 6, 12));
}

TEST(BatchAhead, AnotherStepThanTheOneDrawnAheadIsDrawnWhenTaken) {
  const auto task = make_task({.name = "copy", .max_length = 5});
  const BatchSource source(*task, kSeed, 0);
  BatchAhead ahead(source, 6, 1, 10);
  ahead.begin(1);
  ahead.draw(0, 0, 1);
  expect_same(ahead.take(4)[0], source.train(4, 0, 6, 6));
  expect_same(ahead.take(1)[0], source.train(1, 0, 6, 6));
}

TEST(BatchAhead, DrawsNothingBeyondTheLastStep) {
  const PoisonedTask task(kSeed, 10);
  const BatchSource source(task, kSeed, 0);
  BatchAhead ahead(source, 5, 1, 10);
  ahead.begin(10);
  ahead.draw(0, 0, 1);
  EXPECT_EQ(task.met(), 0);
}

// --- in a run ---

RunConfig run_config(std::int64_t threads) {
  RunConfig config = tiny().resolved();
  config.threads = threads;
  return config;
}

TEST(BatchAhead, AFailureToDrawEndsTheRunAtItsStep) {
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t step : {0, 1, 6}) {
      SCOPED_TRACE(step);
      const RunConfig config = run_config(threads);
      const PoisonedTask task(static_cast<std::uint64_t>(config.seed),
                              static_cast<std::uint32_t>(step));
      Trainer trainer(config, task);
      Recorder recorder;
      TrainObserver* const observers[] = {&recorder};
      EXPECT_THROW((void)trainer.run(nullptr, "", observers), ValueError);
      EXPECT_EQ(recorder.records.size(), static_cast<std::size_t>(step));
    }
  }
}

TEST(BatchAhead, AFailureBeyondTheEndOfARunIsNone) {
  for (const std::int64_t threads : {1, 2}) {
    const RunConfig config = run_config(threads);
    const PoisonedTask task(static_cast<std::uint64_t>(config.seed), 10);
    Trainer trainer(config, task);
    Recorder recorder;
    TrainObserver* const observers[] = {&recorder};
    EXPECT_EQ(trainer.run(nullptr, "", observers).status, RunStatus::done);
    EXPECT_EQ(task.met(), 0);
  }
}

// The batch of step 6 was to be drawn while step 5 computed; the run ends before it is asked for.
TEST(BatchAhead, AFailureBeyondAnInterruptionIsNone) {
  const RunConfig config = run_config(2);
  const PoisonedTask task(static_cast<std::uint64_t>(config.seed), 6);
  Trainer trainer(config, task);
  std::int64_t asked = 0;
  const RunSummary summary = trainer.run(nullptr, "", {}, [&] { return asked++ == 6; });
  EXPECT_EQ(summary.status, RunStatus::interrupted);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_EQ(task.met(), 1);
}

TEST(BatchAhead, ARunIsBitwiseThatOfBatchesDrawnAtTheirStep) {
  for (const std::int64_t threads : {1, 2}) {
    RunConfig config = plain_descent();
    config.threads = threads;
    config.grad_accum = 2;
    config.dtype = DType::float32;
    TinyRun run(config);
    const RunSummary summary = run();

    const auto seed = static_cast<std::uint64_t>(config.seed);
    Transformer model(model_config(run.config, *run.task), seed, config.dtype);
    const BatchSource source(*run.task, seed, 0);
    const auto optimizer = make_optimizer(run.config.optimizer);
    ThreadPool pool(1);
    TrainingStep training(model, pool, config.shards);
    for (std::int64_t t = 0; t < config.max_iters; ++t) {
      const std::vector<Batch> batches{source.train(t, 0, 6, 12), source.train(t, 6, 6, 12)};
      const StepResult step = training.run(batches, {.random{seed, static_cast<std::uint32_t>(t)}});
      optimizer->step(model.parameters(), step.gradients, 1, learning_rate(run.config.schedule, t),
                      pool);
    }
    EXPECT_EQ(summary.parameter_hash, model.parameters().hash());
  }
}

}  // namespace attune::batch_ahead_test
