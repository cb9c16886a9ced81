#include "attune/observe/console.h"

#include <poll.h>
#include <pty.h>
#include <unistd.h>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "observe/sample_run.h"

namespace attune::console_test {

// A stream into memory.
class Sink final {
 public:
  Sink() : stream_(open_memstream(&bytes_, &size_)) {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  ~Sink() {
    std::fclose(stream_);
    std::free(bytes_);
  }
  [[nodiscard]] std::FILE* stream() { return stream_; }
  [[nodiscard]] std::string text() {
    std::fflush(stream_);
    return {bytes_, size_};
  }

 private:
  char* bytes_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

// A run of 1000 steps whose training lines are due every `log_interval` of them.
struct Start {
  RunConfig config = RunConfig::defaults_for("copy").resolved();
  RunStart start{.config = config,
                 .directory = "runs/copy-1",
                 .example = "312= -> 312.",
                 .parameters = 804096,
                 .first_step = 0,
                 .threads = 2,
                 .chance = 0.125,
                 .has_answers = true,
                 .blas_kernel = "Zen"};
  explicit Start(std::int64_t log_interval = 10) {
    config.max_iters = 1000;
    config.log_interval = log_interval;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Console, BeginsWithTaskModelDeviceAndSeed) {
  Sink sink;
  Console console(sink.stream(), false);
  console.on_start(Start().start);
  EXPECT_EQ(lines_of(sink.text()),
            (std::vector<std::string>{
                "task: copy, chance 0.125, for example: 312= -> 312.",
                "model: 804,096 parameters, 2 layers, 4 heads, width 64, positions sinusoidal",
                "device: cpu, 2 threads, float32, BLAS kernel Zen", "seed: 1337"}));
}

TEST(Console, SaysWhereItResumes) {
  Sink sink;
  Console console(sink.stream(), false);
  Start start;
  start.start.first_step = 250;
  console.on_start(start.start);
  EXPECT_EQ(lines_of(sink.text()).back(), "resuming at step 250");
}

TEST(Console, AnExampleIsOneShortLine) {
  Sink sink;
  Console console(sink.stream(), false);
  Start start;
  start.start.example = "a\nb\t";
  for (int i = 0; i < 100; ++i) start.start.example += "\u00e4";
  console.on_start(start.start);
  const std::string line = lines_of(sink.text()).front();
  EXPECT_NE(line.find("for example: a b \u00e4"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("\u00e4...")) << line;  // no half of a character
  EXPECT_EQ(lines_of(sink.text()).size(), 4u);
}

TEST(Console, LinesAreThoseThatNanoGptsScriptsParse) {
  Sink sink;
  Console console(sink.stream(), false);
  console.on_start(Start().start);
  const AttentionStatistics attention = two_heads();
  StepRecord record = sample_step(250);
  record.attention = &attention;
  console.on_step(record);
  const std::vector<std::string> lines = lines_of(sink.text());
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[4],
            "step 250: train loss 2.5000, val loss 2.5000, val accuracy 0.4000, exact 0.2000");
  EXPECT_EQ(lines[5], "iter 250: loss 2.1250, time 12.50ms, tok/s 4096, entropy 0.50 [0.25 0.75]");
  std::smatch match;
  const std::regex step(R"(step (\d+): train loss ([\d.]+), val loss ([\d.]+))");
  ASSERT_TRUE(std::regex_search(lines[4], match, step));
  EXPECT_EQ(match[3], "2.5000");
  const std::regex iteration(R"(iter (\d+): loss ([\d.]+), time ([\d.]+)ms)");
  ASSERT_TRUE(std::regex_search(lines[5], match, iteration));
  EXPECT_EQ(match[2], "2.1250");
  EXPECT_EQ(match[3], "12.50");
}

TEST(Console, TrainingLinesComeAtTheirInterval) {
  Sink sink;
  Console console(sink.stream(), false);
  console.on_start(Start(4).start);
  for (std::int64_t step = 0; step < 9; ++step) {
    StepRecord record = sample_step(step);
    record.train_evaluation.reset();
    record.validation.reset();
    console.on_step(record);
  }
  const std::vector<std::string> lines = lines_of(sink.text());
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_TRUE(lines[4].starts_with("iter 0: "));
  EXPECT_TRUE(lines[5].starts_with("iter 4: "));
  EXPECT_TRUE(lines[6].starts_with("iter 8: "));
}

TEST(Console, DrawsNoBarBesideATerminal) {
  Sink sink;
  Console console(sink.stream(), false);
  console.on_start(Start().start);
  console.on_step(sample_step(1));
  EXPECT_EQ(sink.text().find('\r'), std::string::npos);
  EXPECT_EQ(sink.text().find('\x1b'), std::string::npos);
}

TEST(Console, DrawsABarWithRateAndTimeLeftOnATerminal) {
  Sink sink;
  Console console(sink.stream(), true);
  console.on_start(Start().start);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  StepRecord record = sample_step(499);
  record.train_evaluation.reset();
  record.validation.reset();
  console.on_step(record);
  const std::string text = sink.text();
  const std::regex bar(
      R"(\[#{8}\.{8}\] 500/1000  \d+ steps/s  ETA [0-9.ms]+  loss 2.1250, accuracy 0.500)");
  EXPECT_TRUE(std::regex_search(text, bar)) << text;
  EXPECT_FALSE(text.ends_with("\n"));
}

// What a pseudo-terminal delivers until nothing has come for half a second: it does so in pieces.
std::string read_until_quiet(int terminal) {
  std::string text;
  pollfd ready{terminal, POLLIN, 0};
  while (poll(&ready, 1, 500) > 0) {
    char piece[4096];
    const ssize_t count = read(terminal, piece, sizeof(piece));
    if (count <= 0) break;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return text;
}

// A wrapped bar could not be cleared.
TEST(Console, TheBarIsNoWiderThanTheTerminal) {
  int terminal = -1;
  int ours = -1;
  const winsize size{.ws_row = 24, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&ours, &terminal, nullptr, nullptr, &size) != 0) {
    GTEST_SKIP() << "this system has no pseudo-terminals";
  }
  std::FILE* const stream = fdopen(terminal, "w");
  Console console(stream, true);
  Start start;
  console.on_start(start.start);
  StepRecord record = sample_step(1);
  record.train_evaluation.reset();
  record.validation.reset();
  console.on_step(record);
  const std::string text = read_until_quiet(ours);
  const std::string bar = text.substr(text.rfind('\n') + 1);
  EXPECT_TRUE(bar.starts_with("[....")) << text;
  EXPECT_EQ(bar.size(), 39u);
  std::fclose(stream);
  close(ours);
}

TEST(Console, LinesTakeThePlaceOfTheBar) {
  Sink sink;
  Console console(sink.stream(), true);
  console.on_start(Start().start);
  console.on_step(sample_step(1));
  const std::size_t before = sink.text().size();
  console.on_note("a note");
  EXPECT_EQ(sink.text().substr(before), "\r\x1b[Knote: a note\n");
}

TEST(Console, EndsWithTheResultAndWhereToLook) {
  Sink sink;
  Console console(sink.stream(), true);
  console.on_start(Start().start);
  console.on_step(sample_step(1));
  const std::size_t before = sink.text().size();
  RunSummary summary;
  summary.status = RunStatus::target;
  summary.steps = 40;
  summary.elapsed_seconds = 65;
  summary.validation = sample_evaluation();
  console.on_end(summary);
  EXPECT_EQ(sink.text().substr(before),
            "\r\x1b[Ktarget after 40 steps in 1m05s, val loss 2.5000, 20.00 % of answers right\n"
            "run: runs/copy-1   look at it: attune report runs/copy-1\n");
}

TEST(Console, AStreamThatCannotBeWrittenEndsNothing) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  Console console(full, true);
  console.on_start(Start().start);
  console.on_step(sample_step(0));
  console.on_end(RunSummary{});
  EXPECT_NE(std::ferror(full), 0);
  std::fclose(full);
}

}  // namespace attune::console_test
