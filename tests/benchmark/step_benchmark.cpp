// Times whole training steps beside their floor and prints a table, or with --json one line of JSON
// for each configuration and number of threads; with --profile where the time of a step goes to.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/thread_pool.h"
#include "attune/observe/profile_table.h"
#include "configuration.h"
#include "floor.h"
#include "kernels/gemm.h"
#include "measurement.h"
#include "training_loop.h"

namespace attune::benchmarks {
namespace {

struct Result {
  std::string configuration;
  int threads = 0;
  std::int64_t tokens = 0;
  double operations = 0;  // of the floor
  MemoryUse memory;
  std::vector<double> step_ms, floor_ms, statistics_ms;  // by round; step_ms without statistics
};

// The same work on one number of threads.
class Contest final {
 public:
  Contest(const Configuration& configuration, int threads)
      : configuration_(configuration),
        pool_(threads),
        memory_(measure_memory(configuration, pool_)),
        loop_(configuration, pool_),
        floor_(configuration, pool_) {}

  void add_pieces(std::vector<std::function<void()>>& pieces) {
    pieces.emplace_back([this] { loop_.step(false); });
    pieces.emplace_back([this] { floor_.run(); });
    pieces.emplace_back([this] { loop_.step(true); });
  }
  // `times`: of the three pieces, in the order above.
  [[nodiscard]] Result result(std::span<const std::vector<double>> times) const {
    return {.configuration = configuration_.name,
            .threads = pool_.threads(),
            .tokens = configuration_.tokens(),
            .operations = floor_.operations(),
            .memory = memory_,
            .step_ms = times[0],
            .floor_ms = times[1],
            .statistics_ms = times[2]};
  }

 private:
  const Configuration& configuration_;
  ThreadPool pool_;
  MemoryUse memory_;
  TrainingLoop loop_;
  Floor floor_;
};

// All numbers of threads take part in the same rounds, so that they can be compared.
std::vector<Result> measure(const Configuration& configuration, std::span<const int> threads,
                            int rounds) {
  std::vector<std::unique_ptr<Contest>> contests;
  std::vector<std::function<void()>> pieces;
  for (const int count : threads) {
    contests.push_back(std::make_unique<Contest>(configuration, count));
    contests.back()->add_pieces(pieces);
  }
  const std::vector<std::vector<double>> times = measure_in_turns(pieces, rounds);
  std::vector<Result> results;
  for (std::size_t i = 0; i < contests.size(); ++i) {
    results.push_back(contests[i]->result(std::span(times).subspan(3 * i, 3)));
  }
  return results;
}

// The speed-up over one thread, ours divided by the floor's, round by round; 1: the cores are used
// as well. Nothing without a measurement on one thread.
std::optional<Spread> gain(const Result& result, std::span<const Result> all) {
  for (const Result& other : all) {
    if (other.threads != 1 || result.threads == 1) continue;
    std::vector<double> gains;
    for (std::size_t round = 0; round < result.step_ms.size(); ++round) {
      gains.push_back(other.step_ms[round] / result.step_ms[round] * result.floor_ms[round] /
                      other.floor_ms[round]);
    }
    return spread_of(std::move(gains));
  }
  return {};
}

std::string format_spread(const Spread& spread) {
  const int digits = spread.median < 10 ? 3 : 1;
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", spread.median, digits, spread.p25, digits,
                     spread.p75, digits);
}

void print_header() {
  fmt::print("{:<6} {:>3}  {:<22} {:>8} {:>15}  {:<22} {:<20} {:>5} {:>6} {:>6} {:>9}\n", "model",
             "thr", "step ms (p25-p75)", "tokens/s", "GFLOP/s (floor)", "floor ms", "times floor",
             "gain", "stats", "allocs", "peak MiB");
}

void print_rows(std::span<const Result> results) {
  for (const Result& result : results) {
    const Spread step = spread_of(result.step_ms);
    const Spread floor = spread_of(result.floor_ms);
    const std::optional<Spread> cores = gain(result, results);
    fmt::print(
        "{:<6} {:>3}  {:<22} {:>8.0f} {:>15}  {:<22} {:<20} {:>5} {:>6.3f} {:>6.2f} {:>9.2f}\n",
        result.configuration, result.threads, format_spread(step),
        static_cast<double>(result.tokens) / step.median * 1e3,
        fmt::format("{:.1f} ({:.1f})", result.operations / step.median / 1e6,
                    result.operations / floor.median / 1e6),
        format_spread(floor), format_spread(spread_of_ratios(result.step_ms, result.floor_ms)),
        cores ? fmt::format("{:.2f}", cores->median) : "",
        spread_of_ratios(result.statistics_ms, result.step_ms).median,
        result.memory.system_allocations,
        static_cast<double>(result.memory.peak_bytes) / (1 << 20));
  }
  std::fflush(stdout);
}

void print_json(std::span<const Result> results) {
  for (const Result& result : results) {
    const auto quartiles = [](const Spread& spread) {
      return nlohmann::ordered_json{
          {"p25", spread.p25}, {"median", spread.median}, {"p75", spread.p75}};
    };
    const double step_ms = spread_of(result.step_ms).median;
    nlohmann::ordered_json line{
        {"configuration", result.configuration},
        {"threads", result.threads},
        {"rounds", result.step_ms.size()},
        {"blas_kernel", kernels::blas_kernel()},
        {"step_ms", quartiles(spread_of(result.step_ms))},
        {"floor_ms", quartiles(spread_of(result.floor_ms))},
        {"times_floor", quartiles(spread_of_ratios(result.step_ms, result.floor_ms))},
        {"statistics_ratio", quartiles(spread_of_ratios(result.statistics_ms, result.step_ms))},
        {"tokens_per_second", static_cast<double>(result.tokens) / step_ms * 1e3},
        {"floor_operations", result.operations},
        {"system_allocations_per_step", result.memory.system_allocations},
        {"peak_bytes", result.memory.peak_bytes}};
    if (const auto cores = gain(result, results)) {
      line["gain_over_floor_gain"] = quartiles(*cores);
    }
    fmt::print("{}\n", line.dump());
  }
  std::fflush(stdout);
}

// Where the time of about a second of steps goes to, with attention's statistics or without.
void print_profile(const Configuration& configuration, int threads, bool statistics) {
  constexpr int kWarmUp = 3;
  constexpr std::chrono::seconds kTime{1};
  ThreadPool pool(threads);
  TrainingLoop loop(configuration, pool);
  for (int i = 0; i < kWarmUp; ++i) loop.step(statistics);
  RunProfile profile;
  profile.begin(threads, loop.shards());
  const auto end = std::chrono::steady_clock::now() + kTime;
  int steps = 0;
  for (; std::chrono::steady_clock::now() < end; ++steps) loop.step(statistics, &profile);
  profile.end();
  fmt::print("{}, {} thread{}, {} steps of {:.3f} ms\n{}\n", configuration.name, threads,
             threads == 1 ? "" : "s", steps, profile.elapsed_seconds() / steps * 1e3,
             profile_table(profile, ProfileTable::op));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  cxxopts::Options options("step_benchmark", "Times training steps beside their matrix products.");
  options.add_options()(
      "names", "configurations: char, small, toy, wide",
      cxxopts::value<std::vector<std::string>>()->default_value("char,small,toy"))(
      "threads", "numbers of threads", cxxopts::value<std::vector<int>>()->default_value("1,2"))(
      "rounds", "rounds that the median is taken of", cxxopts::value<int>()->default_value("11"))(
      "json", "print JSON lines")("profile", "print the share of time of each operation instead")(
      "statistics", "profile steps that measure attention's entropy")("help", "print this");
  options.parse_positional("names");
  options.positional_help("[CONFIGURATION...]");
  const cxxopts::ParseResult parsed = options.parse(argc, argv);
  if (parsed.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  const int rounds = checked_rounds(parsed["rounds"].as<int>());
  const auto threads = parsed["threads"].as<std::vector<int>>();
  const bool json = parsed.count("json") != 0;

  std::vector<const Configuration*> chosen;
  for (const std::string& name : parsed["names"].as<std::vector<std::string>>()) {
    chosen.push_back(&configuration(name));
  }
  if (parsed.count("profile") != 0) {
    for (const Configuration* each : chosen) {
      for (const int count : threads) print_profile(*each, count, parsed.count("statistics") != 0);
    }
    return 0;
  }
  if (!json) {
    fmt::print(
        "{} rounds in turns; BLAS kernel {}; gain: speed-up over one thread, ours / floor; "
        "stats: step with statistics / without\n",
        rounds, kernels::blas_kernel());
    print_header();
  }
  for (const Configuration* each : chosen) {
    const std::vector<Result> results = measure(*each, threads, rounds);
    json ? print_json(results) : print_rows(results);
  }
  return 0;
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  using namespace attune::benchmarks;
  return run_program("step_benchmark", [&] { return run(argc, argv); });
}
