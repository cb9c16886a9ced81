#include <map>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/examples.h"

namespace attune::registry_test {

TEST(ListTasks, NamesEveryTaskThatCanBeMade) {
  const test::TemporaryFile file(test::pangrams(60));
  for (const TaskInfo& info : list_tasks()) {
    const std::unique_ptr<Task> task = make_task({.name = info.name,
                                                  .min_length = 3,
                                                  .max_length = 8,
                                                  .block_size = 16,
                                                  .data = file.path()});
    EXPECT_EQ(task->name(), info.name);
    EXPECT_EQ(task->description(), info.description);
    EXPECT_EQ(info.description.find('\n'), std::string::npos);
    EXPECT_GT(task->chance(), 0);
    EXPECT_LT(task->chance(), 1);
  }
  EXPECT_EQ(list_tasks().size(), 10u);
}

TEST(MakeTask, UnknownNameIsAnsweredWithNearOnes) {
  const std::string message =
      test::message_of<ConfigError>([] { static_cast<void>(make_task({.name = "revers"})); });
  EXPECT_NE(message.find("\"revers\""), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean reverse"), std::string::npos) << message;
}

TEST(MakeTask, BadOptionsAreNamedAsOnTheCommandLine) {
  const auto message = [](const TaskOptions& options) {
    return test::message_of<ConfigError>([&] { static_cast<void>(make_task(options)); });
  };
  EXPECT_EQ(message({.name = "copy", .min_length = 5, .max_length = 3}).find("--length: 5..3"), 0u);
  EXPECT_EQ(message({.name = "parity", .min_length = 0}).find("--length: 0..12"), 0u);
  EXPECT_EQ(message({.name = "brackets", .max_length = 5000}).find("--length: 1..5000"), 0u);
  EXPECT_EQ(message({.name = "sort", .symbols = 0}).find("--symbols: 0 "), 0u);
  EXPECT_EQ(message({.name = "induction", .symbols = 1}).find("--symbols: 1 "), 0u);
  EXPECT_EQ(message({.name = "addition", .digits = 0}).find("--digits: 0 "), 0u);
  EXPECT_EQ(message({.name = "text", .block_size = 0, .data = "x"}).find("--block-size: 0 "), 0u);
  EXPECT_EQ(message({.name = "recall", .max_length = 12, .symbols = 10}).find("--length: up to 12"),
            0u);
}

// By counting: the most frequent target among many examples.
TEST(Chance, IsTheAccuracyOfTheBestSingleToken) {
  std::vector<TaskOptions> all = test::typical_options();
  all.push_back({.name = "copy", .min_length = 9, .max_length = 21, .symbols = 2});
  all.push_back({.name = "addition", .digits = 8});
  all.push_back({.name = "brackets", .min_length = 30, .max_length = 40});
  for (const TaskOptions& options : all) {
    const std::unique_ptr<Task> task = make_task(options);
    std::map<std::int32_t, double> counts;
    double scored = 0;
    double most = 0;
    for (const test::Example& example : test::draw_many(*task, Split::train, 10000))
      for (const std::int32_t target : example.targets) {
        if (target == kIgnore) continue;
        ++scored;
        most = std::max(most, ++counts[target]);
      }
    EXPECT_NEAR(most / scored, task->chance(), 0.01) << options.name;
  }
}

}  // namespace attune::registry_test
