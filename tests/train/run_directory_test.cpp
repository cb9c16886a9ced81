#include "attune/train/run_directory.h"

#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune::run_directory_test {

namespace fs = std::filesystem;

// Every test has an empty current directory of its own.
class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() : before_(fs::current_path()) {
    std::string name = (fs::temp_directory_path() / "attune-run-test-XXXXXX").string();
    root_ = mkdtemp(name.data());
    fs::current_path(root_);
  }
  ~RunDirectoryTest() override {
    fs::current_path(before_);
    fs::remove_all(root_);
  }

  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

 private:
  fs::path before_;
  fs::path root_;
};

template <class Exception, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Exception& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

TEST_F(RunDirectoryTest, MakesThePathGiven) {
  const RunDirectory run = RunDirectory::create("a/b/c", "copy");
  EXPECT_TRUE(fs::is_directory("a/b/c"));
  EXPECT_EQ(run.path(), "a/b/c");
  EXPECT_EQ(run.checkpoint(), "a/b/c/checkpoint.safetensors");
}

TEST_F(RunDirectoryTest, TakesADirectoryThatHoldsNoRun) {
  fs::create_directory("out");
  write("out/notes.txt", "mine");
  EXPECT_EQ(RunDirectory::create("out", "copy").path(), "out");
  EXPECT_TRUE(fs::exists("out/notes.txt"));
}

TEST_F(RunDirectoryTest, NumbersRunsFromOneAndSkipsTakenNumbers) {
  fs::create_directories("runs/copy-2");
  write("runs/copy-3", "a file");
  const RunDirectory first = RunDirectory::create("", "copy");
  const RunDirectory second = RunDirectory::create("", "copy");
  const RunDirectory other = RunDirectory::create("", "sort");
  EXPECT_EQ(first.path(), "runs/copy-1");
  EXPECT_EQ(second.path(), "runs/copy-4");
  EXPECT_EQ(other.path(), "runs/sort-1");
}

TEST_F(RunDirectoryTest, RunsThatStartTogetherGetDirectoriesOfTheirOwn) {
  constexpr std::size_t kThreads = 8;
  std::vector<fs::path> paths(kThreads);
  std::atomic<std::size_t> ready = 0;
  std::vector<std::thread> threads;
  for (fs::path& path : paths) {
    threads.emplace_back([&ready, &path] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      path = RunDirectory::create("", "copy").path();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<fs::path>(paths.begin(), paths.end()).size(), kThreads);
  EXPECT_TRUE(fs::exists("runs/copy-8"));
  EXPECT_FALSE(fs::exists("runs/copy-9"));
}

TEST_F(RunDirectoryTest, RefusesADirectoryThatHoldsARun) {
  for (const char* file : {"config.toml", "checkpoint.safetensors"}) {
    fs::create_directory("out");
    write(fs::path("out") / file, "");
    EXPECT_EQ(
        message_of<ConfigError>([] { static_cast<void>(RunDirectory::create("out", "copy")); }),
        "--out-dir: 'out' already holds a run; continue it with --resume");
    EXPECT_FALSE(fs::exists("out/.lock"));
    fs::remove_all("out");
  }
}

TEST_F(RunDirectoryTest, APathThatCannotBeMadeIsAnErrorOfTheEnvironment) {
  write("file", "");
  for (const char* path : {"file", "file/run", "/proc/no/run"}) {
    const std::string message =
        message_of<IoError>([path] { static_cast<void>(RunDirectory::create(path, "copy")); });
    EXPECT_NE(message.find("'" + std::string(path) + "'"), std::string::npos) << message;
  }
}

TEST_F(RunDirectoryTest, ARunsFileInTheWayIsAnErrorOfTheEnvironment) {
  write("runs", "");
  const std::string message =
      message_of<IoError>([] { static_cast<void>(RunDirectory::create("", "copy")); });
  EXPECT_NE(message.find("'runs'"), std::string::npos) << message;
}

TEST_F(RunDirectoryTest, IsLockedWhileItLives) {
  {
    const RunDirectory run = RunDirectory::create("out", "copy");
    write("out/config.toml", "");
    const std::string message =
        message_of<IoError>([] { static_cast<void>(RunDirectory::open("out")); });
    EXPECT_NE(message.find("in use"), std::string::npos) << message;
  }
  EXPECT_EQ(RunDirectory::open("out").path(), "out");
}

TEST_F(RunDirectoryTest, OpensARunWithoutACheckpoint) {
  fs::create_directory("out");
  write("out/config.toml", "");
  EXPECT_TRUE(RunDirectory::holds_run("out"));
  EXPECT_EQ(RunDirectory::open("out").path(), "out");
}

TEST_F(RunDirectoryTest, OpensNothingThatIsNoRun) {
  fs::create_directory("empty");
  write("file", "");
  for (const char* path : {"empty", "missing", "file"}) {
    EXPECT_FALSE(RunDirectory::holds_run(path));
    const std::string message =
        message_of<ConfigError>([path] { static_cast<void>(RunDirectory::open(path)); });
    EXPECT_NE(message.find("'" + std::string(path) + "' holds no run"), std::string::npos);
  }
  EXPECT_NE(
      message_of<ConfigError>([] { static_cast<void>(RunDirectory::open("")); }).find("--out-dir"),
      std::string::npos);
  EXPECT_FALSE(fs::exists("missing"));
  EXPECT_FALSE(fs::exists("empty/.lock"));
}

TEST_F(RunDirectoryTest, FindsTheCheckpointsThatWereKept) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  EXPECT_TRUE(run.kept_steps().empty());
  EXPECT_EQ(run.kept_checkpoint(90), "out/checkpoint-90.safetensors");
  for (const std::int64_t step : {1000, 90, 0}) write(run.kept_checkpoint(step), "");
  for (const char* other : {"checkpoint.safetensors", "checkpoint-.safetensors",
                            "checkpoint-07.safetensors", "checkpoint--7.safetensors",
                            "checkpoint-7 copy.safetensors", "checkpoint-7.safetensors.tmp",
                            "checkpoint-99999999999999999999.safetensors", "checkpoint-7"}) {
    write(run.path() / other, "");
  }
  fs::create_directory(run.kept_checkpoint(5));
  EXPECT_EQ(run.kept_steps(), (std::vector<std::int64_t>{0, 90, 1000}));
  fs::remove_all("out");
  EXPECT_EQ(message_of<IoError>([&] { static_cast<void>(run.kept_steps()); }),
            "run directory 'out': No such file or directory");
}

TEST_F(RunDirectoryTest, DropsLinesAtAndBeyondTheStep) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  write(run.metrics(), "{\"step\":0,\"lr\":0.5}\n{\"step\":10}\n{\"step\":20}\n");
  write(run.attention(), "{\"layer\":0,\"step\":10}\n{\"step\":10}\n{\"step\":11}\n{\"step\":9}\n");
  run.drop_log_lines_from(11);
  EXPECT_EQ(read_file(run.metrics()), "{\"step\":0,\"lr\":0.5}\n{\"step\":10}\n");
  EXPECT_EQ(read_file(run.attention()), "{\"layer\":0,\"step\":10}\n{\"step\":10}\n{\"step\":9}\n");
  run.drop_log_lines_from(0);
  EXPECT_EQ(read_file(run.metrics()), "");
}

TEST_F(RunDirectoryTest, DropsLinesOfEveryLog) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  const fs::path logs[] = {run.metrics(), run.attention(), run.gradients(), run.activations(),
                           run.alarms()};
  for (const fs::path& log : logs) write(log, "{\"step\":1}\n{\"step\":2}\n");
  run.drop_log_lines_from(2);
  for (const fs::path& log : logs) EXPECT_EQ(read_file(log), "{\"step\":1}\n") << log;
}

TEST_F(RunDirectoryTest, DropsATornLastLine) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  const std::string torn_tails[] = {"{\"st",
                                    "{\"step\":2,\"lr\":0.",
                                    "{\"step\":2",
                                    "{",
                                    "\n",
                                    std::string(64, '\0'),
                                    std::string("{\"step\":2}\0\0", 12)};
  for (const std::string& tail : torn_tails) {
    write(run.metrics(), "{\"step\":1}\n" + tail);
    run.drop_log_lines_from(100);
    EXPECT_EQ(read_file(run.metrics()), "{\"step\":1}\n") << tail;
  }
}

TEST_F(RunDirectoryTest, ALastLineThatOnlyMissesItsEndIsKept) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  write(run.metrics(), "{\"step\":1}\n{\"step\":2}");
  run.drop_log_lines_from(3);
  EXPECT_EQ(read_file(run.metrics()), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(RunDirectoryTest, DamageBeforeTheLastLineIsAnErrorThatNamesTheLine) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  const std::string log = "{\"step\":1}\n{\"step\":\n{\"step\":3}\n";
  write(run.metrics(), log);
  EXPECT_EQ(message_of<IoError>([&] { run.drop_log_lines_from(2); }),
            "out/metrics.jsonl: line 2 is not JSON");
  EXPECT_EQ(read_file(run.metrics()), log);
  for (const char* line : {"{}", "[1]", "3", "{\"step\":1.5}", "{\"step\":null}", "{\"step\":-1}",
                           "{\"step\":9223372036854775808}", "{\"step\":18446744073709551615}"}) {
    write(run.metrics(), std::string(line) + "\n{\"step\":3}\n");
    const std::string message = message_of<IoError>([&] { run.drop_log_lines_from(2); });
    EXPECT_TRUE(message.starts_with("out/metrics.jsonl: line 1: ")) << message;
  }
}

TEST_F(RunDirectoryTest, LogsThatNeedNoChangeAreLeftAlone) {
  const RunDirectory run = RunDirectory::create("out", "copy");
  write(run.metrics(), "{\"step\":1}\n");
  const auto time = fs::last_write_time(run.metrics()) - std::chrono::hours(1);
  fs::last_write_time(run.metrics(), time);
  run.drop_log_lines_from(2);
  EXPECT_EQ(fs::last_write_time(run.metrics()), time);
  EXPECT_FALSE(fs::exists(run.attention()));
}

}  // namespace attune::run_directory_test
