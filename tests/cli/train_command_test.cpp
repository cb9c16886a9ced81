#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>

#include "cli/run_binary.h"

namespace attune::cli_test::train_command_test {

using Strings = std::vector<std::string>;

// Some lines of words, enough for a block of 64 in the last tenth.
std::string sample_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "line " + std::to_string(i * 37 % 101) + " of a text\n";
  return text;
}

TEST(TrainCommand, LeavesTheFilesOfARun) {
  const Workspace space;
  const Result result = space.run(tiny_run("run"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(space.entries(), (Strings{"run", "run/.lock", "run/attention.jsonl",
                                      "run/best.safetensors", "run/checkpoint.safetensors",
                                      "run/config.toml", "run/metrics.jsonl", "run/summary.json"}));
  const nlohmann::json summary = space.summary("run");
  EXPECT_EQ(summary.at("status"), "done");
  EXPECT_EQ(summary.at("steps"), 10);
  EXPECT_TRUE(std::regex_match(space.hash("run"), std::regex("[0-9a-f]{16}")));
  EXPECT_TRUE(summary.at("command_line").get<std::string>().starts_with("attune train copy "));
}

TEST(TrainCommand, IsBitwiseTheSameForAnyNumberOfThreads) {
  const Workspace space;
  Words words = tiny_run("one");
  ASSERT_EQ(space.run(words).code, 0);
  for (const char* threads : {"2", "3"}) {
    words[3] = threads;
    words.back() = std::string("--threads=") + threads;
    ASSERT_EQ(space.run(words).code, 0);
    expect_same_run(space, "one", threads);
  }
}

TEST(TrainCommand, RepeatsARunFromItsConfiguration) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("first") + Words{"--seed=7", "--pos=rope"}).code, 0);
  const Words again{"train", "--config", "first/config.toml", "--out-dir", "second"};
  const Result result = space.run(again);
  ASSERT_EQ(result.code, 0) << result.err;
  expect_same_run(space, "first", "second");
  EXPECT_EQ(space.read("first/config.toml"), space.read("second/config.toml"));
}

TEST(TrainCommand, DumpsTheConfigurationOfTheRunAndMakesNone) {
  const Workspace space;
  const Result dump = space.run(tiny_run("run") + Words{"--dump-config"});
  EXPECT_EQ(dump.code, 0);
  EXPECT_TRUE(space.entries().empty());
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  EXPECT_EQ(dump.out, space.read("run/config.toml"));
}

TEST(TrainCommand, LaterConfigurationsWinAndTheCommandLineWinsOverAll) {
  const Workspace space;
  space.write("a.toml", "task = \"sort\"\nn_layer = 3\nn_head = 2\nbatch_size = 5\n");
  space.write("b.toml", "n_head = 4\nbatch_size = 7\n");
  const Result dump = space.run(
      {"train", "--config=a.toml", "--config=b.toml", "--batch-size", "9", "--dump-config"});
  ASSERT_EQ(dump.code, 0) << dump.err;
  for (const char* line :
       {"task = \"sort\"\n", "\nn_layer = 3\n", "\nn_head = 4\n", "\nbatch_size = 9\n"}) {
    EXPECT_NE(dump.out.find(line), std::string::npos) << line;
  }
}

TEST(TrainCommand, RunsNanoGptsCommandUnchanged) {
  const Workspace space;
  space.write("input.txt", sample_text());
  const Result result = space.run(
      {"train", "text", "--data", "input.txt", "--device=cpu", "--compile=False", "--eval_iters=1",
       "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
       "--n_embd=128", "--max_iters=2", "--lr_decay_iters=2000", "--dropout=0.0"});
  EXPECT_EQ(result.code, 0) << result.err;
  // What scripts around nanoGPT look for.
  const std::regex evaluation(
      "step (\\d+): train loss (\\d+\\.\\d{4}), val loss (\\d+\\.\\d{4}).*");
  const std::regex iteration("iter (\\d+): loss (\\d+\\.\\d{4}), time (\\d+\\.\\d{2})ms.*");
  Strings found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, evaluation)) found.push_back("step " + match[1].str());
    if (std::regex_match(line, match, iteration)) found.push_back("iter " + match[1].str());
  }
  EXPECT_EQ(found, (Strings{"step 0", "iter 0", "iter 1", "step 2"}));
  EXPECT_TRUE(space.holds("runs/text-1/checkpoint.safetensors"));
}

TEST(TrainCommand, NumbersRunsWithoutADirectory) {
  const Workspace space;
  Words words = tiny_run("");
  words.erase(words.begin() + 2, words.begin() + 4);
  ASSERT_EQ(space.run(words).code, 0);
  const Result second = space.run(words);
  ASSERT_EQ(second.code, 0);
  EXPECT_EQ(space.hash("runs/copy-1"), space.hash("runs/copy-2"));
  EXPECT_NE(second.out.find("run: runs/copy-2"), std::string::npos) << second.out;
}

TEST(TrainCommand, FirstLinesTellTaskModelDeviceAndSeed) {
  const Workspace space;
  const Result result = space.run(tiny_run("run"));
  std::istringstream lines(result.out);
  for (const char* expected :
       {"task: copy, chance 0\\.[0-9]{3}, for example: ([0-9]{1,3})= -> \\1\\.",
        "model: [0-9,]+ parameters, 1 layers, 2 heads, width 8, positions sinusoidal",
        "device: cpu, 1 thread, float32, BLAS kernel .+", "seed: 1337"}) {
    std::string line;
    std::getline(lines, line);
    EXPECT_TRUE(std::regex_match(line, std::regex(expected))) << line;
  }
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "no bar beside a terminal";
}

TEST(TrainCommand, AClosedOutputDoesNotEndARun) {
  const Workspace space;
  EXPECT_EQ(space.run(tiny_run("run"), Output::closed).code, 0);
  EXPECT_EQ(space.summary("run").at("status"), "done");
}

TEST(TrainCommand, AFullDiskUnderTheOutputIsAnErrorOfAWholeRun) {
  const Workspace space;
  const Result result = space.run(tiny_run("run"), Output::full);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "attune: standard output: No space left on device\n");
  EXPECT_EQ(space.summary("run").at("status"), "done");
}

TEST(TrainCommand, ProfilesARunAndChangesNothingElse) {
  const Workspace space;
  const Result plain = space.run(tiny_run("plain"));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out.find("profile of"), std::string::npos);
  for (const auto& [run, option, heading, row] :
       {std::tuple{"by-op", "--profile", "\nop ", "\nattention  "},
        std::tuple{"by-module", "--profile=module", "\nmodule ", "\nblock.0.attention  "}}) {
    const Result profiled = space.run(tiny_run(run) + Words{option});
    ASSERT_EQ(profiled.code, 0) << profiled.err;
    const std::size_t table = profiled.out.find("\nprofile of ");
    ASSERT_NE(table, std::string::npos) << profiled.out;
    EXPECT_NE(profiled.out.find(heading, table), std::string::npos) << profiled.out;
    EXPECT_NE(profiled.out.find(row, table), std::string::npos) << profiled.out;
    EXPECT_NE(profiled.out.find("\n(evaluation) ", table), std::string::npos) << profiled.out;
    EXPECT_TRUE(profiled.out.ends_with("100.0 %\n")) << profiled.out;
    expect_same_run(space, "plain", run);
    EXPECT_EQ(space.read(std::string(run) + "/config.toml"), space.read("plain/config.toml"));
  }
}

TEST(TrainCommand, EndsAtATarget) {
  const Workspace space;
  EXPECT_EQ(space.run(tiny_run("run") + Words{"--target-loss=100"}).code, 0);
  EXPECT_EQ(space.summary("run").at("status"), "target");
  EXPECT_EQ(space.summary("run").at("steps"), 0);
  EXPECT_TRUE(space.holds("run/checkpoint.safetensors"));
}

TEST(TrainCommand, EndsWhenTheTimeIsUp) {
  const Workspace space;
  Words words = tiny_run("run") + Words{"--time-budget=0.1s"};
  words[10] = "--max-iters=2000000000";
  EXPECT_EQ(space.run(words).code, 0);
  EXPECT_EQ(space.summary("run").at("status"), "budget");
  EXPECT_GE(space.summary("run").at("elapsed_seconds"), 0.1);
}

TEST(TrainCommand, ADivergedRunFailsAndNamesAParameter) {
  const Workspace space;
  const Result result =
      space.run(tiny_run("run") + Words{"--lr=1e38", "--grad-clip=0", "--warmup-iters=0"});
  EXPECT_EQ(result.code, 1);
  const std::regex expected(
      "attune: diverged at step [0-9]+: the gradient of [a-z0-9_.]+ is not finite \\(loss .*\\)\n");
  EXPECT_TRUE(std::regex_match(result.err, expected)) << result.err;
  const nlohmann::json summary = space.summary("run");
  EXPECT_EQ(summary.at("status"), "diverged");
  EXPECT_EQ("attune: " + summary.at("message").get<std::string>() + "\n", result.err);
  const nlohmann::json last = space.log("run/metrics.jsonl").back();
  EXPECT_EQ(last.at("step"), summary.at("steps"));
  EXPECT_TRUE(last.at("skipped"));
  EXPECT_FALSE(last.at("nonfinite").empty());
}

TEST(Resume, FiveAndFiveStepsAreTen) {  // B35, B42
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("whole") + Words{"--grad-accum=2"}).code, 0);
  Words half = tiny_run("halves") + Words{"--grad-accum=2", "--lr-decay-iters=10"};
  half[10] = "--max-iters=5";
  ASSERT_EQ(space.run(half).code, 0);
  const Result rest = space.run({"train", "--out-dir=halves", "--resume", "--max-iters=10"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("resuming at step 5\n"), std::string::npos);
  expect_same_run(space, "whole", "halves");
}

TEST(Resume, WithoutACheckpointStartsAtStepZeroAndSaysSo) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("whole")).code, 0);
  std::filesystem::create_directory(space.path() / "killed");
  space.write("killed/config.toml", space.read("whole/config.toml"));
  space.write("killed/metrics.jsonl", "{\"step\":0,\"train_loss\":1.5}\n{\"step\":1,\"tra");
  const Result result = space.run({"train", "copy", "--out-dir=killed", "--resume"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("no checkpoint yet: starting at step 0"), std::string::npos);
  expect_same_run(space, "whole", "killed");
}

TEST(Resume, FollowsADataFileThatMoved) {
  const Workspace space;
  space.write("a/input.txt", sample_text());
  const Words run{"train",
                  "text",
                  "--n-layer=1",
                  "--n-head=1",
                  "--n-embd=8",
                  "--block-size=8",
                  "--batch-size=3",
                  "--eval-iters=1",
                  "--max-iters=4",
                  "--data",
                  "a/input.txt",
                  "--out-dir",
                  "run"};
  ASSERT_EQ(space.run(run).code, 0);
  std::filesystem::rename(space.path() / "a", space.path() / "b");
  std::filesystem::rename(space.path() / "run", space.path() / "moved");
  const Words resume{"train", "--out-dir=moved", "--resume", "--max-iters=6"};

  const Result lost = space.run(resume);
  EXPECT_EQ(lost.code, 1);
  EXPECT_NE(lost.err.find("a/input.txt"), std::string::npos) << lost.err;
  space.write("other.txt", sample_text() + "!");
  const Result other = space.run(resume + Words{"--data=other.txt"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--data"), std::string::npos) << other.err;
  const Result found = space.run(resume + Words{"--data=b/input.txt"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(space.summary("moved").at("steps"), 6);
  EXPECT_NE(space.read("moved/config.toml").find("/b/input.txt\""), std::string::npos);
  EXPECT_EQ(space.run({"eval", "moved", "--eval-iters=1"}).code, 0);
}

// A run that is long enough to be ended in the middle, and what it is when nobody does.
class Interrupted : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    space_ = std::make_unique<Workspace>();
    ASSERT_EQ(space_->run(long_run("whole")).code, 0);
  }
  static void TearDownTestSuite() { space_.reset(); }

  static Words long_run(const std::string& directory) {
    Words words = tiny_run(directory) + Words{"--save-interval=60"};
    words[10] = "--max-iters=3000";
    words[11] = "--eval-interval=130";
    return words;
  }

  static std::unique_ptr<Workspace> space_;
};
std::unique_ptr<Workspace> Interrupted::space_;

TEST_F(Interrupted, ByCtrlCSavesAndGoesOnBitwise) {  // B40
  Process process = space_->start(long_run("interrupted"));
  ASSERT_TRUE(space_->wait_for_lines("interrupted/metrics.jsonl", 75));
  process.signal(SIGINT);
  const Result result = process.wait();
  EXPECT_EQ(result.code, 130) << result.err;
  const nlohmann::json summary = space_->summary("interrupted");
  EXPECT_EQ(summary.at("status"), "interrupted");
  EXPECT_LT(summary.at("steps"), 3000);
  ASSERT_EQ(space_->run({"train", "--out-dir=interrupted", "--resume", "--threads=2"}).code, 0);
  expect_same_run(*space_, "whole", "interrupted");
}

TEST_F(Interrupted, ByAKillGoesOnBitwiseFromItsCheckpoint) {
  Process process = space_->start(long_run("killed"));
  ASSERT_TRUE(space_->wait_for_file("killed/checkpoint.safetensors"));
  ASSERT_TRUE(space_->wait_for_lines("killed/metrics.jsonl", 70));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().code, 128 + SIGKILL);
  EXPECT_FALSE(space_->holds("killed/summary.json"));
  const Result rest = space_->run({"train", "--out-dir=killed", "--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  expect_same_run(*space_, "whole", "killed");
}

TEST_F(Interrupted, ARunThatGoesOnIsLocked) {
  Process process = space_->start(long_run("locked"));
  ASSERT_TRUE(space_->wait_for_lines("locked/metrics.jsonl", 1));
  const Result second = space_->run({"train", "--out-dir=locked", "--resume"});
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("in use by another process"), std::string::npos) << second.err;
}

}  // namespace attune::cli_test::train_command_test
