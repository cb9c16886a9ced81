#include <set>

#include <gtest/gtest.h>

#include "attune/task/task.h"
#include "task/examples.h"

namespace attune::induction_test {

const TaskOptions kPublished{
    .name = "induction", .min_length = 12, .max_length = 23, .symbols = 32};

TEST(Induction, HasThePublishedSize) {
  const std::unique_ptr<Task> task = make_task(kPublished);
  EXPECT_EQ(task->vocabulary(), 32);
  EXPECT_EQ(task->time(), 48);
  EXPECT_FALSE(task->has_answers());
}

TEST(Induction, AsksForTheRepetitionOfARandomPeriodOnly) {
  const std::unique_ptr<Task> task = make_task(kPublished);
  std::set<std::size_t> periods;
  for (const Split split : {Split::train, Split::validation})
    for (const test::Example& example : test::draw_many(*task, split, 500)) {
      std::size_t period = 0;
      while (example.targets[period] == kIgnore) ++period;
      periods.insert(period);
      for (std::size_t i = period; i < 48; ++i) {
        ASSERT_EQ(example.tokens[i], example.tokens[i - period]);
        if (i + 1 < 48) {
          ASSERT_EQ(example.targets[i], example.tokens[i + 1]);
        }
        // Seen before: the same token one period ago was followed by the target.
        ASSERT_EQ(example.targets[i], example.tokens[i - period + 1]);
      }
    }
  EXPECT_EQ(periods.size(), 12u);
  EXPECT_EQ(*periods.begin(), 12u);
  EXPECT_EQ(*periods.rbegin(), 23u);
}

TEST(Induction, ShortestPeriodRepeatsOneSymbol) {
  const std::unique_ptr<Task> task =
      make_task({.name = "induction", .min_length = 1, .max_length = 1, .symbols = 62});
  for (const test::Example& example : test::draw_many(*task, Split::train, 20)) {
    const std::int32_t symbol = example.tokens[0];
    EXPECT_EQ(example.tokens, (std::vector<std::int32_t>{symbol, symbol, symbol, symbol}));
    EXPECT_EQ(example.targets, (std::vector<std::int32_t>{kIgnore, symbol, symbol, symbol}));
  }
}

}  // namespace attune::induction_test
