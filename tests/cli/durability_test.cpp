#include <gtest/gtest.h>

#include "cli/run_binary.h"

namespace attune::cli_test::durability_test {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;

// Long enough to be ended in the middle.
Words long_run(const std::string& directory) {
  Words words = tiny_run(directory) + Words{"--save-interval=60", "--lr-decay-iters=3000"};
  words[10] = "--max-iters=3000";
  words[11] = "--eval-interval=130";
  return words;
}

Words resume(const std::string& directory) { return {"train", "--out-dir", directory, "--resume"}; }

void expect_one_line(const Result& result, int code, const std::string& part) {
  EXPECT_EQ(result.code, code);
  EXPECT_TRUE(result.err.starts_with("attune: ")) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << part << " in " << result.err;
}

// Replaces a line of a run's config.toml.
void edit_config(const Workspace& space, const std::string& line, const std::string& by) {
  std::string toml = space.read("run/config.toml");
  const std::size_t at = toml.find("\n" + line + "\n");
  ASSERT_NE(at, std::string::npos) << line << " in " << toml;
  space.write("run/config.toml", toml.replace(at + 1, line.size(), by));
}

TEST(Checkpoints, TheLastAndTheBestStay) {
  const Workspace space;
  const Result result =
      space.run(tiny_run("run") + Words{"--save-interval=2", "--keep-last=3", "--lr=0.1"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(space.entries(), (Words{"run", "run/.lock", "run/attention.jsonl",
                                    "run/best.safetensors", "run/checkpoint-6.safetensors",
                                    "run/checkpoint-8.safetensors", "run/checkpoint.safetensors",
                                    "run/config.toml", "run/metrics.jsonl", "run/summary.json"}));
  const Result older = space.run({"eval", "run/checkpoint-6.safetensors", "--eval-iters=1"});
  EXPECT_EQ(older.code, 0) << older.err;
  EXPECT_TRUE(older.out.starts_with("copy after 6 steps")) << older.out;

  // The evaluation of the run and that of its best checkpoint are over the same examples.
  const Result best = space.run({"eval", "run/best.safetensors", "--eval-iters=2", "--json"});
  ASSERT_EQ(best.code, 0) << best.err;
  const nlohmann::json json = nlohmann::json::parse(best.out);
  EXPECT_EQ(json.at("val_loss"), space.summary("run").at("best_val_loss"));
}

// A run made longer, killed before it saved again.
TEST(Resume, RemembersAChangedOptionWithoutACheckpointSince) {
  const Workspace space;
  Words words = long_run("run");
  words[10] = "--max-iters=60";
  ASSERT_EQ(space.run(words).code, 0);
  Process longer =
      space.start(resume("run") + Words{"--max-iters=3000", "--save-interval=1000000"});
  ASSERT_TRUE(space.wait_for_lines("run/metrics.jsonl", 90));
  longer.signal(SIGKILL);
  ASSERT_EQ(longer.wait().code, 128 + SIGKILL);
  EXPECT_FALSE(space.holds("run/summary.json"));  // of the 60 steps

  const Result rest = space.run(resume("run") + Words{"--save-interval=60"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("resuming at step 60\n"), std::string::npos) << rest.out;
  EXPECT_EQ(space.summary("run").at("steps"), 3000);
  ASSERT_EQ(space.run(long_run("whole")).code, 0);
  expect_same_run(space, "run", "whole");
}

TEST(Resume, TakesWhatMayChangeFromTheConfigurationOfTheRun) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  edit_config(space, "max_iters = 10", "max_iters = 12");
  ASSERT_EQ(space.run(resume("run")).code, 0);
  EXPECT_EQ(space.summary("run").at("steps"), 12);
  // The command line wins.
  ASSERT_EQ(space.run(resume("run") + Words{"--max-iters=13"}).code, 0);
  EXPECT_EQ(space.summary("run").at("steps"), 13);
}

TEST(Resume, RefusesAConfigurationThatIsNotThatOfTheCheckpoint) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const std::string toml = space.read("run/config.toml");
  const std::string checkpoint = space.read("run/checkpoint.safetensors");
  edit_config(space, "n_layer = 1", "n_layer = 2");
  expect_one_line(space.run(resume("run")), kUsage, "run/config.toml: --n-layer is not as in");
  space.write("run/config.toml", "max_iters = \n");
  expect_one_line(space.run(resume("run")), kUsage, "run/config.toml: line 1");
  EXPECT_EQ(space.read("run/checkpoint.safetensors"), checkpoint);
  // The checkpoint alone is enough.
  std::filesystem::remove(space.path() / "run/config.toml");
  EXPECT_EQ(space.run(resume("run")).code, 0);
  EXPECT_EQ(space.read("run/config.toml"), toml);
}

TEST(Lock, OfTwoRunsInOneDirectoryOneIsRefused) {
  const Workspace space;
  ASSERT_EQ(space.run(long_run("whole")).code, 0);
  Process first = space.start(long_run("run"));
  ASSERT_TRUE(space.wait_for_lines("run/metrics.jsonl", 1));
  // Streams of their own: both processes write some.
  const auto second = [&](const Words& words) {
    return Process(space.path(), words, Output::kept, space.path().parent_path() / "second").wait();
  };
  expect_one_line(second(resume("run")), kFailed, "run directory 'run' is in use by another");
  expect_one_line(second(long_run("run")), kUsage, "already holds a run");
  // Looking at it is no second run.
  EXPECT_EQ(second(resume("run") + Words{"--dump-config"}).code, 0);
  const Result result = first.wait();
  EXPECT_EQ(result.code, 0) << result.err;
  expect_same_run(space, "run", "whole");
}

TEST(Lock, OfTwoRunsThatStartTogetherOneIsRefused) {
  const Workspace space;
  for (int round = 0; round < 5; ++round) {
    const std::string run = "run" + std::to_string(round);
    Process a(space.path(), tiny_run(run), Output::kept, space.path().parent_path() / "a");
    Process b(space.path(), tiny_run(run), Output::kept, space.path().parent_path() / "b");
    const Result results[] = {a.wait(), b.wait()};
    const bool first_ran = results[0].code == 0;
    EXPECT_EQ(results[first_ran ? 0 : 1].code, 0) << results[1].err;
    const Result& refused = results[first_ran ? 1 : 0];
    // Where the other one was done already there is a run, and no process in it.
    const bool was_done = refused.err.find("already holds a run") != std::string::npos;
    expect_one_line(refused, was_done ? kUsage : kFailed, run);
    EXPECT_EQ(space.log(run + "/metrics.jsonl").size(), 11u);
  }
}

TEST(Lock, IsNoneAfterAKill) {
  const Workspace space;
  Process process = space.start(long_run("run"));
  ASSERT_TRUE(space.wait_for_file("run/checkpoint.safetensors"));
  process.signal(SIGKILL);
  ASSERT_EQ(process.wait().code, 128 + SIGKILL);
  EXPECT_TRUE(space.holds("run/.lock"));
  const Result rest = space.run(resume("run") + Words{"--max-iters=60"});
  EXPECT_EQ(rest.code, 0) << rest.err;
}

// As early as a signal can meet a run that has a directory.
TEST(Interruption, OfARunThatJustBeganSavesIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Workspace space;
    Process process = space.start(long_run("run"));
    ASSERT_TRUE(space.wait_for_file("run/.lock"));
    process.signal(signal);
    const Result result = process.wait();
    EXPECT_EQ(result.code, kInterrupted) << result.err;
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out.find("interrupted after "), std::string::npos) << result.out;
    EXPECT_EQ(space.summary("run").at("status"), "interrupted");
    EXPECT_TRUE(space.holds("run/checkpoint.safetensors"));
  }
}

}  // namespace attune::cli_test::durability_test
