#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "cli/run_binary.h"

// What a run tells of its inside, through the program.
namespace attune::cli_test::watch_test {

Words watched_run(const std::string& directory) {
  return tiny_run(directory) + Words{"--log-grads", "--log-activations"};
}

TEST(Watch, LogsOfTheInsideAreThereWhereAskedFor) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("plain")).code, 0);
  ASSERT_EQ(space.run(watched_run("watched")).code, 0);
  EXPECT_EQ(space.hash("plain"), space.hash("watched"));
  EXPECT_FALSE(space.holds("plain/gradients.jsonl"));
  EXPECT_FALSE(space.holds("plain/activations.jsonl"));
  std::map<std::int64_t, std::set<std::string>> parameters;
  for (const nlohmann::json& line : space.log("watched/gradients.jsonl")) {
    EXPECT_TRUE(parameters[line.at("step")].insert(line.at("parameter")).second);
  }
  ASSERT_EQ(parameters.size(), 10U);
  for (const auto& [step, names] : parameters) EXPECT_EQ(names, parameters.at(0)) << step;
  EXPECT_TRUE(parameters.at(0).contains("block.0.attention.query.weight"));
  std::set<std::pair<std::int64_t, std::string>> places;
  for (const nlohmann::json& line : space.log("watched/activations.jsonl"))
    EXPECT_TRUE(places.emplace(line.at("step"), line.at("point")).second);
  EXPECT_EQ(places.size(), 10U * 7);
}

TEST(Watch, LogsOfTheInsideDoNotDependOnThreadsOrABreak) {
  const Workspace space;
  ASSERT_EQ(space.run(watched_run("whole")).code, 0);
  ASSERT_EQ(space.run(watched_run("threads") + Words{"--threads=3"}).code, 2) << "given twice";
  Words threads = watched_run("threads");
  threads[15] = "--threads=3";
  ASSERT_EQ(space.run(threads).code, 0);
  expect_same_run(space, "whole", "threads");
  Words half = watched_run("halves") + Words{"--lr-decay-iters=10"};
  half[10] = "--max-iters=5";
  ASSERT_EQ(space.run(half).code, 0);
  ASSERT_EQ(space.run({"train", "--out-dir=halves", "--resume", "--max-iters=10"}).code, 0);
  expect_same_run(space, "whole", "halves");
}

// Runs scripts/read_events.py, a reader of its own.
std::vector<nlohmann::json> events_of(const Workspace& space, const std::string& run) {
  const std::string command = "cd '" + space.path().string() + "' && PYTHONDONTWRITEBYTECODE=1 " +
                              "python3 '" ATTUNE_SOURCE_DIR "/scripts/read_events.py' " + run +
                              " >events 2>errors";
  EXPECT_EQ(std::system(command.c_str()), 0) << space.read("errors");
  std::vector<nlohmann::json> events;
  std::istringstream lines(space.read("events"));
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no Python here";
    const Result result = space_.run(watched_run("run") + Words{"--tensorboard"});
    if (result.code == 2) {
      EXPECT_TRUE(result.err.starts_with("attune: --tensorboard: this program was built without"))
          << result.err;
      EXPECT_TRUE(space_.entries().empty());
      GTEST_SKIP() << "a build without protobuf";
    }
    ASSERT_EQ(result.code, 0) << result.err;
  }

  // Every scalar of the logs once, as a float of it.
  void expect_events_as_in_logs() const {
    std::map<std::pair<std::int64_t, std::string>, double> scalars;
    std::set<std::pair<std::int64_t, std::string>> histograms;
    for (const nlohmann::json& event : events_of(space_, "run")) {
      const std::pair<std::int64_t, std::string> key{event.at("step"), event.at("tag")};
      if (event.contains("value")) {
        EXPECT_TRUE(scalars.emplace(key, event.at("value")).second) << event;
      } else {
        EXPECT_TRUE(histograms.insert(key).second) << event;
        EXPECT_EQ(event.at("histogram").at("num"), 2) << event;
      }
    }
    for (const nlohmann::json& line : space_.log("run/metrics.jsonl")) {
      for (const auto& [field, tag] : {std::pair{"train_loss", "loss/train"},
                                       {"val_loss", "loss/val"},
                                       {"lr", "optimizer/lr"},
                                       {"grad_norm", "optimizer/grad_norm"},
                                       {"entropy_min", "entropy/min"}}) {
        const auto found = scalars.find({line.at("step"), tag});
        ASSERT_EQ(found != scalars.end(), line.contains(field)) << tag << line;
        if (line.contains(field)) {
          EXPECT_FLOAT_EQ(static_cast<float>(found->second), line.at(field).get<float>());
        }
      }
    }
    for (const nlohmann::json& line : space_.log("run/gradients.jsonl")) {
      const std::string tag = "gradient_rms/" + line.at("parameter").get<std::string>();
      const auto found = scalars.find({line.at("step"), tag});
      ASSERT_NE(found, scalars.end()) << tag;
      EXPECT_FLOAT_EQ(static_cast<float>(found->second), line.at("gradient_rms").get<float>());
    }
    for (const nlohmann::json& line : space_.log("run/attention.jsonl")) {
      const std::string split = line.at("split");
      EXPECT_TRUE(histograms.contains({line.at("step"), "entropy/" + split + "/layer_00"}));
    }
  }

  Workspace space_;
};

TEST_F(TensorBoard, EventsSayWhatTheLogsSay) {
  expect_events_as_in_logs();
  for (const nlohmann::json& event : events_of(space_, "run")) {
    if (event.at("tag") != "entropy/val/layer_00" || event.at("step") != 0) continue;
    double sum = 0;
    for (const nlohmann::json& line : space_.log("run/attention.jsonl")) {
      if (line.at("split") == "val" && line.at("step") == 0)
        sum += line.at("entropy_norm").get<double>();
    }
    EXPECT_DOUBLE_EQ(event.at("histogram").at("sum").get<double>(), sum);
    return;
  }
  FAIL() << "no histogram of step 0";
}

TEST_F(TensorBoard, ARunThatGoesOnHasEachStepOnce) {
  ASSERT_EQ(space_.run({"train", "--out-dir=run", "--resume", "--max-iters=14"}).code, 0);
  std::size_t files = 0;
  for (const std::string& name : space_.entries())
    files += name.find("tfevents") != std::string::npos ? 1 : 0;
  EXPECT_EQ(files, 2U);
  expect_events_as_in_logs();
}

// A deep post-norm model without warm-up whose rate is far too high: what it learns is how often
// each token occurs.
TEST(Diagnose, NamesWhatIsWrongWithAStuckRun) {
  const Workspace space;
  Words words = tiny_run("stuck") + Words{"--norm-pos=post", "--lr=0.05", "--warmup-iters=0"};
  words[4] = "--n-layer=8";
  words[10] = "--max-iters=60";
  words[11] = "--eval-interval=20";
  words[14] = "--dropout=0";
  ASSERT_EQ(space.run(words).code, 0);
  const Result result = space.run({"diagnose", "stuck", "--steps=8", "--threads=1"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* text :
       {"run: stuck, checkpoint of step 60", "\nlayer ", "- the gradient dies at layer ",
        "trying 4 beginnings of the run, 8 steps each from a fresh model: about ", "\nas it was ",
        "\nwarm-up ", "\npre-norm ", "\nsmaller rate "}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << '\n' << result.out;
  }
  EXPECT_EQ(space.entries().front(), "stuck");
  EXPECT_FALSE(space.holds("runs")) << "trials leave no files";
}

TEST(Diagnose, SaysSoWhereNothingIsWrong) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const Result result = space.run({"diagnose", "run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("nothing is wrong here"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("trying"), std::string::npos) << result.out;
  const Result wrong = space.run({"diagnose", "run", "--steps=-1"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "attune: --steps: '-1' is not a whole number from 0 to 1048576\n");
  EXPECT_EQ(space.run({"diagnose", "nowhere"}).code, 1);
  EXPECT_EQ(space.run({"diagnose"}).code, 2);
}

}  // namespace attune::cli_test::watch_test
