#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/core/file.h"

// The binary as a person meets it: started in a directory of its own, judged by its exit code, its
// two streams and the files it leaves.
namespace attune::cli_test {

using Words = std::vector<std::string>;

struct Result {
  int code = -1;  // 128 + the signal that ended it
  std::string out;
  std::string err;
};

// closed: a pipe whose reader has gone, as after `| head -1`; none: no stream at all, as with
// `>&-`; full: a disk without room.
enum class Output { kept, closed, none, full };

// A process that runs. Ends with the test: the system ends it after two minutes at the latest.
class Process final {
 public:
  Process(const std::filesystem::path& directory, const Words& words, Output output,
          std::filesystem::path streams)
      : streams_(std::move(streams)) {
    std::filesystem::create_directories(streams_);
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> argv{const_cast<char*>("attune")};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string out = out_path().string();
    const std::string err = err_path().string();
    child_ = fork();
    if (child_ == 0) {
      constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
      close(pipe_ends[0]);
      const char* file = output == Output::full ? "/dev/full" : out.c_str();
      dup2(output == Output::closed ? pipe_ends[1] : open(file, kFlags, 0600), 1);
      dup2(open(err.c_str(), kFlags, 0600), 2);
      if (output == Output::none) close(1);
      close(pipe_ends[1]);
      alarm(120);
      if (chdir(directory.c_str()) == 0) execv(ATTUNE_BINARY, argv.data());
      _exit(127);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (child_ < 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void signal(int number) const { kill(child_, number); }

  [[nodiscard]] Result wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    Result result;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (std::filesystem::exists(out_path())) result.out = read_file(out_path());
    result.err = read_file(err_path());
    return result;
  }

 private:
  [[nodiscard]] std::filesystem::path out_path() const { return streams_ / "out"; }
  [[nodiscard]] std::filesystem::path err_path() const { return streams_ / "err"; }

  std::filesystem::path streams_;
  pid_t child_ = -1;
};

// A temporary directory that the binary works in.
class Workspace final {
 public:
  Workspace() {
    std::string name = (std::filesystem::temp_directory_path() / "attune-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    root_ = name;
    std::filesystem::create_directory(path());
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] std::filesystem::path path() const { return root_ / "work"; }
  [[nodiscard]] std::string read(const std::string& file) const { return read_file(path() / file); }
  [[nodiscard]] bool holds(const std::string& file) const {
    return std::filesystem::exists(path() / file);
  }
  void write(const std::string& file, const std::string& bytes) const {
    std::filesystem::create_directories((path() / file).parent_path());
    std::ofstream(path() / file, std::ios::binary) << bytes;
  }
  // Every file and directory below, in order.
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      names.push_back(entry.path().lexically_relative(path()).string());
    }
    std::ranges::sort(names);
    return names;
  }

  [[nodiscard]] Process start(const Words& words, Output output = Output::kept) const {
    return Process(path(), words, output, root_ / "streams");
  }
  [[nodiscard]] Result run(const Words& words, Output output = Output::kept) const {
    return start(words, output).wait();
  }

  // The objects of a log, without the fields that tell a time.
  [[nodiscard]] std::vector<nlohmann::json> log(const std::string& file) const {
    std::vector<nlohmann::json> lines;
    std::ifstream stream(path() / file);
    for (std::string line; std::getline(stream, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      for (const char* time : {"elapsed_seconds", "step_ms", "tokens_per_second"}) json.erase(time);
      lines.push_back(std::move(json));
    }
    return lines;
  }
  [[nodiscard]] nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(read(run + "/summary.json"));
  }
  [[nodiscard]] std::string hash(const std::string& run) const {
    return summary(run).at("parameter_hash");
  }

  // Waits until a log has that many lines; false after a minute.
  [[nodiscard]] bool wait_for_lines(const std::string& file, std::size_t count) const {
    return wait_until([&] {
      if (!holds(file)) return false;
      const std::string bytes = read(file);
      return static_cast<std::size_t>(std::ranges::count(bytes, '\n')) >= count;
    });
  }
  [[nodiscard]] bool wait_for_file(const std::string& file) const {
    return wait_until([&] { return holds(file); });
  }

 private:
  template <class Condition>
  static bool wait_until(const Condition& holds) {
    for (int i = 0; i < 30000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  std::filesystem::path root_;
};

// Bitwise the same weights and, times aside, the same logs.
inline void expect_same_run(const Workspace& space, const std::string& a, const std::string& b) {
  EXPECT_EQ(space.hash(a), space.hash(b));
  EXPECT_EQ(space.log(a + "/metrics.jsonl"), space.log(b + "/metrics.jsonl"));
  for (const char* log :
       {"/attention.jsonl", "/gradients.jsonl", "/activations.jsonl", "/alarms.jsonl"}) {
    EXPECT_EQ(space.log(a + log), space.log(b + log)) << log;
  }
}

// The words of both, one after the other.
[[nodiscard]] inline Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A run of well under a tenth of a second that has everything: dropout, evaluations, both logs.
[[nodiscard]] inline Words tiny_run(const std::string& directory) {
  return {"train",
          "copy",
          "--out-dir",
          directory,
          "--n-layer=1",
          "--n-head=2",
          "--n-embd=8",
          "--length=1..3",
          "--batch-size=6",
          "--eval-iters=2",
          "--max-iters=10",
          "--eval-interval=4",
          "--log-interval=1",
          "--attention-interval=3",
          "--dropout=0.1",
          "--threads=1"};
}

}  // namespace attune::cli_test
