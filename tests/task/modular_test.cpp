#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/task/task.h"
#include "task/examples.h"

namespace attune::modular_test {

struct Equation {
  int a = 0;
  std::string op;
  int b = 0;
  int answer = 0;
};

Equation equation(const Task& task, Split split, std::int64_t index) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(task.time()));
  std::vector<std::int32_t> targets(tokens.size());
  task.listed(split, index, tokens, targets);
  std::istringstream text(task.decode(tokens));
  Equation result;
  std::string equals;
  text >> result.a >> result.op >> result.b >> equals >> result.answer;
  EXPECT_EQ(equals, "=");
  EXPECT_EQ(task.decode(targets), "_ _ _ " + std::to_string(result.answer) + " .");
  return result;
}

std::vector<Equation> all(const Task& task, Split split) {
  std::vector<Equation> equations;
  for (std::int64_t i = 0; i < task.count(split); ++i)
    equations.push_back(equation(task, split, i));
  return equations;
}

int mod(int a, int p) { return (a % p + p) % p; }

TEST(Modular, ListsEveryPairOnceWithItsAnswer) {
  for (const std::string op : {"add", "sub", "mul", "div"}) {
    const int p = 23;
    const std::unique_ptr<Task> task = make_task({.name = "modular", .modulus = p, .op = op});
    std::set<std::pair<int, int>> seen;
    for (const Split split : {Split::train, Split::validation})
      for (const Equation& e : all(*task, split)) {
        EXPECT_TRUE(seen.insert({e.a, e.b}).second);
        if (op == "add") {
          EXPECT_EQ(e.answer, mod(e.a + e.b, p));
        }
        if (op == "sub") {
          EXPECT_EQ(e.answer, mod(e.a - e.b, p));
        }
        if (op == "mul") {
          EXPECT_EQ(e.answer, mod(e.a * e.b, p));
        }
        if (op == "div") {
          EXPECT_NE(e.b, 0);
          EXPECT_EQ(mod(e.answer * e.b, p), e.a);
        }
        EXPECT_TRUE(e.answer >= 0 && e.answer < p);
      }
    EXPECT_EQ(seen.size(), op == "div" ? 23u * 22u : 23u * 23u) << op;
  }
}

TEST(Modular, CommutedPairsShareTheirSplit) {
  for (const std::string op : {"add", "mul"}) {
    const std::unique_ptr<Task> task =
        make_task({.name = "modular", .modulus = 31, .op = op, .val_fraction = 0.5});
    std::map<std::pair<int, int>, Split> splits;
    for (const Split split : {Split::train, Split::validation})
      for (const Equation& e : all(*task, split)) splits[{e.a, e.b}] = split;
    for (const auto& [pair, split] : splits) EXPECT_EQ(splits.at({pair.second, pair.first}), split);
  }
}

TEST(Modular, OrderedOperationSplitsItsPairsApart) {
  const std::unique_ptr<Task> task =
      make_task({.name = "modular", .modulus = 31, .op = "sub", .val_fraction = 0.5});
  std::set<std::pair<int, int>> train;
  for (const Equation& e : all(*task, Split::train)) train.insert({e.a, e.b});
  int apart = 0;
  for (const auto& [a, b] : train) apart += !train.contains({b, a});
  EXPECT_GT(apart, 100);
}

TEST(Modular, ValidationFractionIsTheShareOfPairs) {
  for (const double fraction : {0.1, 0.3, 0.7}) {
    const std::unique_ptr<Task> task =
        make_task({.name = "modular", .modulus = 113, .val_fraction = fraction});
    const auto held_out = static_cast<double>(task->count(Split::validation));
    // Five standard deviations of a binomial over the 6441 unordered pairs, each worth up to two.
    EXPECT_NEAR(held_out / (113 * 113), fraction, 0.035);
    EXPECT_EQ(task->count(Split::train) + task->count(Split::validation), 113 * 113);
  }
}

TEST(Modular, DrawReachesEveryListedPair) {
  const std::unique_ptr<Task> task = make_task({.name = "modular", .modulus = 7});
  for (const Split split : {Split::train, Split::validation}) {
    std::set<std::string> listed;
    std::vector<std::int32_t> tokens(5);
    std::vector<std::int32_t> targets(5);
    for (std::int64_t i = 0; i < task->count(split); ++i) {
      task->listed(split, i, tokens, targets);
      listed.insert(task->decode(tokens));
    }
    std::set<std::string> drawn;
    for (const test::Example& example : test::draw_many(*task, split, 1000))
      drawn.insert(task->decode(example.tokens));
    EXPECT_EQ(drawn, listed);
  }
}

TEST(Modular, BadOptionsAreNamed) {
  const auto message = [](const TaskOptions& options) {
    return test::message_of<ConfigError>([&] { static_cast<void>(make_task(options)); });
  };
  EXPECT_EQ(message({.name = "modular", .op = "pow"}).find("--op: \"pow\""), 0u);
  EXPECT_EQ(message({.name = "modular", .modulus = 1}).find("--modulus: 1 "), 0u);
  EXPECT_EQ(
      message({.name = "modular", .modulus = 12, .op = "div"}).find("--modulus: 12 is not prime"),
      0u);
  EXPECT_EQ(message({.name = "modular", .val_fraction = 0}).find("--val-fraction: 0"), 0u);
  EXPECT_EQ(message({.name = "modular", .val_fraction = std::nan("")}).find("--val-fraction"), 0u);
  EXPECT_NE(message({.name = "modular", .modulus = 2, .val_fraction = 1e-9}).find("val split"),
            std::string::npos);
}

}  // namespace attune::modular_test
