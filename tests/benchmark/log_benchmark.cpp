// What watching a run costs: training runs that differ in their logs alone take turns, step by
// step, on one thread, so that what slows the machine for a while slows all of them. The logs are
// those of `attune train`, written into a temporary directory.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <cxxopts.hpp>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/random.h"
#include "attune/observe/alarm_log.h"
#include "attune/observe/console.h"
#include "attune/observe/inside_logs.h"
#include "attune/observe/logs.h"
#include "attune/train/options.h"
#include "attune/train/trainer.h"
#include "measurement.h"

namespace attune::benchmarks {
namespace {

using Choices = std::vector<std::pair<const char*, std::string>>;

constexpr std::int64_t kPeriod = 50;  // steps in which what the default logs do comes round
constexpr std::int64_t kParts = 5;    // of a measurement: how far their results differ

struct Variant {
  const char* name;
  Choices logs;
};

const std::vector<Variant>& variants() {
  static const Choices kNothing = {{"log-interval", "1000000"}, {"attention-interval", "0"}};
  static const Choices kEachStep = {{"log-interval", "1"}, {"attention-interval", "1"}};
  static const auto kAnd = [](Choices choices, std::vector<const char*> switches) {
    for (const char* name : switches) choices.emplace_back(name, "true");
    return choices;
  };
  static const std::vector<Variant> kVariants = {
      {"nothing", kNothing},
      {"nothing again", kNothing},  // how far two runs of the same differ
      {"default", {}},
      {"entropy", kEachStep},
      {"and gradients", kAnd(kEachStep, {"log-grads"})},
      {"and activations", kAnd(kEachStep, {"log-grads", "log-activations"})},
  };
  return kVariants;
}

// Whose turn it is; the threads of all others wait.
class Turns final {
 public:
  explicit Turns(std::size_t count) : count_(count) {}
  void wait_for(std::size_t me) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == me; });
  }
  void pass_on() {
    const std::lock_guard lock(mutex_);
    turn_ = (turn_ + 1) % count_;
    changed_.notify_all();
  }

 private:
  std::size_t count_;
  std::size_t turn_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Stands last among a run's observers: measures its steps and hands over after each.
class Clock final : public TrainObserver {
 public:
  Clock(Turns& turns, std::size_t me) : turns_(turns), me_(me) {}
  void on_start(const RunStart& /*start*/) override { begin(); }
  void on_step(const StepRecord& /*record*/) override {
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - begin_;
    steps.push_back(took.count());
    turns_.pass_on();
    begin();
  }
  void on_end(const RunSummary& /*summary*/) override { turns_.pass_on(); }

  std::vector<double> steps;  // milliseconds

 private:
  void begin() {
    turns_.wait_for(me_);
    begin_ = std::chrono::steady_clock::now();
  }

  Turns& turns_;
  std::size_t me_;
  std::chrono::steady_clock::time_point begin_;
};

// A run with its logs, as train_command.cpp puts it together.
class Watched final {
 public:
  Watched(const std::string& task, const Choices& choices, const std::filesystem::path& place,
          Turns& turns, std::size_t me)
      : config_(config_of(task, choices)),
        task_(make_task(config_.task)),
        trainer_(config_, *task_),
        output_(std::fopen((place / "out").c_str(), "w")),
        metrics_(place / "metrics.jsonl"),
        attention_(place / "attention.jsonl"),
        gradients_(place / "gradients.jsonl"),
        activations_(place / "activations.jsonl"),
        console_(output_.get(), false),
        alarms_(place / "alarms.jsonl", place / "attention.jsonl", console_),
        clock_(turns, me) {}

  std::vector<double> run() {
    std::vector<TrainObserver*> observers = {&metrics_, &attention_, &console_, &alarms_};
    if (config_.log_grads) observers.push_back(&gradients_);
    if (config_.log_activations) observers.push_back(&activations_);
    observers.push_back(&clock_);
    static_cast<void>(trainer_.run(nullptr, "", observers));
    return std::move(clock_.steps);
  }

 private:
  static RunConfig config_of(const std::string& task, const Choices& choices) {
    RunConfig config = RunConfig::defaults_for(task);
    for (const auto& [name, value] : choices) find_option(name)->set(config, value);
    config.threads = 1;
    config.eval_interval = config.max_iters;
    config.eval_iters = 1;
    return config.resolved();
  }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  RunConfig config_;
  std::unique_ptr<Task> task_;
  Trainer trainer_;
  std::unique_ptr<std::FILE, Close> output_;
  MetricsLog metrics_;
  AttentionLog attention_;
  GradientLog gradients_;
  ActivationLog activations_;
  Console console_;
  AlarmLog alarms_;
  Clock clock_;
};

// How many times longer steps [begin, end) of `a` took than those of `b`: the mean over the places
// of a period, at each of which the median stands for all its steps.
double ratio_of(const std::vector<double>& a, const std::vector<double>& b, std::int64_t begin,
                std::int64_t end) {
  double sum = 0;
  for (std::int64_t place = 0; place < kPeriod; ++place) {
    std::vector<double> ratios;
    for (std::int64_t step = begin + place; step < end; step += kPeriod) {
      const auto i = static_cast<std::size_t>(step);
      ratios.push_back(a[i] / b[i]);
    }
    sum += spread_of(std::move(ratios)).median;
  }
  return sum / kPeriod;
}

void print_ratios(const std::string& name, const std::vector<std::vector<double>>& steps) {
  const auto all = static_cast<std::int64_t>(steps[0].size());
  const std::int64_t first = kPeriod;  // evaluates before its first step
  const std::int64_t part = (all - first) / kPeriod / kParts * kPeriod;
  for (std::size_t v = 0; v < steps.size(); ++v) {
    double lowest = std::numeric_limits<double>::infinity(), highest = 0;
    for (std::int64_t begin = first; begin < first + kParts * part; begin += part) {
      const double ratio = ratio_of(steps[v], steps[0], begin, begin + part);
      lowest = std::min(lowest, ratio);
      highest = std::max(highest, ratio);
    }
    const double ratio = ratio_of(steps[v], steps[0], first, first + kParts * part);
    fmt::print("{:6} {:16} {:8.3f} ms a step  {:+6.2f} % (fifths {:+.2f} to {:+.2f})\n", name,
               variants()[v].name, spread_of(steps[v]).median, 100 * (ratio - 1),
               100 * (lowest - 1), 100 * (highest - 1));
  }
  std::fflush(stdout);
}

struct Size {
  std::string task;
  Choices choices;
  int periods;  // in a part of a round
};

void measure(const std::string& name, const Size& size, int rounds,
             const std::filesystem::path& place) {
  Choices choices = size.choices;
  choices.emplace_back("max-iters", std::to_string((kParts * rounds * size.periods + 1) * kPeriod));
  Turns turns(variants().size());
  std::vector<std::unique_ptr<Watched>> runs;
  for (std::size_t v = 0; v < variants().size(); ++v) {
    const std::filesystem::path folder = place / fmt::format("{}-{}", name, v);
    std::filesystem::create_directories(folder);
    Choices all = choices;
    all.insert(all.end(), variants()[v].logs.begin(), variants()[v].logs.end());
    runs.push_back(std::make_unique<Watched>(size.task, all, folder, turns, v));
  }
  std::vector<std::vector<double>> steps(variants().size());
  std::vector<std::thread> threads;
  for (std::size_t v = 0; v < variants().size(); ++v)
    threads.emplace_back([&steps, &runs, v] { steps[v] = runs[v]->run(); });
  for (std::thread& thread : threads) thread.join();
  print_ratios(name, steps);
}

std::string random_words() {
  RandomCursor cursor(Randomness{}.stream("benchmark.log"), 0);
  std::string text;
  for (int i = 0; i < 300000; ++i)
    text += i % 6 == 5 ? ' ' : static_cast<char>('a' + cursor.below(16));
  return text;
}

int run(int count, char** words) {
  cxxopts::Options options("log_benchmark",
                           "Times the steps of training runs that differ in their logs, in turns, "
                           "beside those of a run without logs.");
  options.add_options()("rounds", "times what takes a minute or two",
                        cxxopts::value<int>()->default_value("1"))(
      "size", "toy, copy or text", cxxopts::value<std::vector<std::string>>())("help",
                                                                               "print this");
  options.parse_positional("size");
  options.positional_help("[SIZE...]");
  const auto given = options.parse(count, words);
  if (given.count("help") > 0) {
    fmt::print("{}", options.help());
    return 0;
  }
  const int rounds = checked_rounds(given["rounds"].as<int>());
  const std::vector<std::string> sizes = given.count("size") > 0
                                             ? given["size"].as<std::vector<std::string>>()
                                             : std::vector<std::string>{"toy", "copy", "text"};
  const std::filesystem::path place =
      std::filesystem::temp_directory_path() / fmt::format("attune-logs-{}", getpid());
  std::filesystem::create_directories(place);
  const std::filesystem::path text = place / "text";
  write_file_atomically(text, random_words());
  const std::map<std::string, Size> known = {
      {"toy",
       {"copy", {{"n-head", "2"}, {"n-embd", "32"}, {"length", "1..7"}, {"batch-size", "32"}}, 6}},
      {"copy", {"copy", {}, 2}},
      {"text", {"text", {{"data", text.string()}}, 1}}};
  for (const std::string& size : sizes) {
    const auto found = known.find(size);
    if (found == known.end()) throw ConfigError(fmt::format("'{}' is not toy, copy or text", size));
    measure(size, found->second, rounds, place);
  }
  std::filesystem::remove_all(place);
  return 0;
}

}  // namespace
}  // namespace attune::benchmarks

int main(int count, char** words) {
  return attune::benchmarks::run_program("log_benchmark",
                                         [&] { return attune::benchmarks::run(count, words); });
}
