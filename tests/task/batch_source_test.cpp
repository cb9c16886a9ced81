#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/examples.h"

namespace attune::batch_source_test {

using test::rows;

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.examples, b.examples);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.targets, b.targets);
}

std::vector<std::unique_ptr<Task>> all_tasks() {
  std::vector<std::unique_ptr<Task>> tasks;
  for (const TaskOptions& options : test::typical_options()) tasks.push_back(make_task(options));
  const test::TemporaryFile file(test::pangrams(60));
  tasks.push_back(make_task({.name = "text", .block_size = 31, .data = file.path()}));
  return tasks;
}

TEST(BatchSource, TrainingAndValidationShareNoExample) {  // B46
  for (const TaskOptions& options : test::typical_options()) {
    const std::unique_ptr<Task> task = make_task(options);
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const BatchSource source(*task, seed, 0);
      std::set<std::string> train;
      for (std::int64_t step = 0; step < 20; ++step)
        for (std::string& row : rows(*task, source.train(step, 0, 100, 100)))
          train.insert(std::move(row));
      for (std::int64_t index = 0; index < 4; ++index)
        for (const std::string& row : rows(*task, source.evaluation(Split::validation, index, 100)))
          ASSERT_FALSE(train.contains(row)) << options.name << " seed " << seed << ": " << row;
    }
  }
}

TEST(BatchSource, SameCoordinatesGiveTheSameBatchAndOthersDoNot) {
  for (const std::unique_ptr<Task>& task : all_tasks()) {
    const BatchSource source(*task, 5, 0);
    const Batch batch = source.train(3, 0, 16, 16);
    expect_equal(batch, BatchSource(*task, 5, 0).train(3, 0, 16, 16));
    EXPECT_NE(batch.tokens, source.train(4, 0, 16, 16).tokens) << task->name();
    EXPECT_NE(batch.tokens, BatchSource(*task, 6, 0).train(3, 0, 16, 16).tokens) << task->name();
    const Batch evaluation = source.evaluation(Split::train, 1, 16);
    expect_equal(evaluation, source.evaluation(Split::train, 1, 16));
    EXPECT_NE(evaluation.tokens, source.evaluation(Split::train, 2, 16).tokens) << task->name();
    EXPECT_NE(evaluation.tokens, batch.tokens) << task->name();
  }
}

TEST(BatchSource, AnyPartOfABatchIsASliceOfTheWhole) {
  for (const std::unique_ptr<Task>& task : all_tasks())
    for (const std::int64_t train_size : {0, 1, 7, 37}) {
      const BatchSource source(*task, 1, train_size);
      const Batch whole = source.train(5, 0, 17, 17);
      for (const auto& [begin, end] :
           {std::pair{0, 4}, std::pair{4, 13}, std::pair{13, 17}, std::pair{6, 6}})
        expect_equal(source.train(5, begin, end - begin, 17), whole.slice(begin, end));
    }
}

TEST(BatchSource, EveryEpochVisitsEachTrainingExampleOnceInItsOwnOrder) {  // B42
  const std::unique_ptr<Task> task = make_task({.name = "copy", .min_length = 9, .max_length = 12});
  const BatchSource source(*task, 2, 60);
  std::vector<std::vector<std::string>> epochs(4);
  for (std::int64_t step = 0; step < 16; ++step)
    for (std::string& row : rows(*task, source.train(step, 0, 15, 15)))
      epochs[static_cast<std::size_t>(step / 4)].push_back(std::move(row));
  const std::set<std::string> examples(epochs[0].begin(), epochs[0].end());
  EXPECT_EQ(examples.size(), 60u);
  for (std::size_t e = 1; e < 4; ++e) {
    EXPECT_EQ(std::set<std::string>(epochs[e].begin(), epochs[e].end()), examples);
    EXPECT_NE(epochs[e], epochs[e - 1]);
  }
}

TEST(BatchSource, EpochsGoOnAcrossBatchesThatDoNotDivideThem) {  // B46
  const std::unique_ptr<Task> task = make_task({.name = "copy", .min_length = 9, .max_length = 12});
  const BatchSource source(*task, 2, 10);
  std::vector<std::string> visited;
  for (std::int64_t step = 0; step < 10; ++step)
    for (std::string& row : rows(*task, source.train(step, 0, 7, 7)))
      visited.push_back(std::move(row));
  for (std::size_t epoch = 0; epoch < 7; ++epoch) {
    const auto begin = visited.begin() + static_cast<std::ptrdiff_t>(10 * epoch);
    EXPECT_EQ(std::set<std::string>(begin, begin + 10).size(), 10u) << epoch;
  }
}

TEST(BatchSource, WholeListOfATaskIsVisitedExactly) {
  const std::unique_ptr<Task> task =
      make_task({.name = "modular", .modulus = 13, .val_fraction = 0.4});
  const std::int64_t all = task->count(Split::train);
  const BatchSource source(*task, 0, all);
  const std::vector<std::string> epoch = rows(*task, source.train(0, 0, all, all));
  EXPECT_EQ(std::set<std::string>(epoch.begin(), epoch.end()).size(),
            static_cast<std::size_t>(all));
  EXPECT_THROW(BatchSource(*task, 0, all + 1), ConfigError);
}

TEST(BatchSource, TrainingExamplesOfAListAreDistinctAndDependOnTheSeed) {
  const std::unique_ptr<Task> task = make_task({.name = "modular", .modulus = 97});
  std::set<std::set<std::string>> sets;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const std::vector<std::string> epoch =
        rows(*task, BatchSource(*task, seed, 500).train(0, 0, 500, 500));
    sets.insert(std::set<std::string>(epoch.begin(), epoch.end()));
    EXPECT_EQ(sets.begin()->size(), 500u);
  }
  EXPECT_EQ(sets.size(), 3u);
}

TEST(BatchSource, EvaluationOfAFiniteTrainingSetSamplesIt) {
  for (const TaskOptions& options : test::typical_options()) {
    const std::unique_ptr<Task> task = make_task(options);
    const BatchSource source(*task, 3, 20);
    const std::vector<std::string> epoch = rows(*task, source.train(0, 0, 20, 20));
    const std::set<std::string> examples(epoch.begin(), epoch.end());
    std::set<std::string> met;
    for (std::int64_t index = 0; index < 4; ++index)
      for (std::string& row : rows(*task, source.evaluation(Split::train, index, 64)))
        met.insert(std::move(row));
    EXPECT_EQ(met, examples) << options.name;
    expect_equal(source.evaluation(Split::validation, 1, 8),
                 BatchSource(*task, 3, 0).evaluation(Split::validation, 1, 8));
  }
}

TEST(BatchSource, BadSizesAreRefused) {
  const std::unique_ptr<Task> task = make_task({.name = "copy"});
  EXPECT_EQ(
      test::message_of<ConfigError>([&] { BatchSource(*task, 0, -1); }).find("--train-size: -1"),
      0u);
  const BatchSource source(*task, 0, 0);
  EXPECT_THROW(static_cast<void>(source.train(0, 3, 3, 5)), ValueError);
  EXPECT_THROW(static_cast<void>(source.train(-1, 0, 3, 5)), ValueError);
  EXPECT_THROW(static_cast<void>(source.evaluation(Split::train, -1, 3)), ValueError);
  EXPECT_EQ(source.train(0, 0, 0, 0).tokens.size(), 0u);
}

TEST(Batch, CountsScoredTargetsAndRefusesBadSlices) {
  const Batch batch{2, 3, {1, 2, 3, 4, 5, 6}, {kIgnore, 7, 8, kIgnore, kIgnore, 9}};
  EXPECT_EQ(batch.scored(), 3);
  EXPECT_EQ(batch.slice(1, 2).scored(), 1);
  EXPECT_EQ(batch.slice(1, 2).tokens, (std::vector<std::int32_t>{4, 5, 6}));
  EXPECT_EQ(batch.slice(2, 2).examples, 0);
  EXPECT_THROW(static_cast<void>(batch.slice(1, 3)), ValueError);
  EXPECT_THROW(static_cast<void>(batch.slice(-1, 1)), ValueError);
  EXPECT_THROW(static_cast<void>(batch.slice(2, 1)), ValueError);
}

}  // namespace attune::batch_source_test
