// Times attention, forward and backward, over sequences that double, in both forms, and prints a
// table with the memory that a call takes and the slope of its time: the exponent of the length.
// One example and head of width 64, one thread, float32.

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <cxxopts.hpp>

#include "attune/array/buffer_pool.h"
#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"
#include "attune/ops/attention.h"
#include "measurement.h"

namespace attune::benchmarks {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kShortest = 256;

Array random_values(std::int64_t length, const char* name) {
  Array x = Array::uninitialized({1, length, kWidth}, DType::float32);
  RandomCursor cursor(Randomness{}.stream(name), 0);
  for (float& value : x.mutable_data<float>()) value = static_cast<float>(2 * cursor.uniform() - 1);
  return x;
}

// Forward and backward passes over one length.
class Attention final {
 public:
  // The mask must outlive it.
  Attention(std::int64_t length, const Mask& mask, AttentionForm form)
      : query_(random_values(length, "query")),
        key_(random_values(length, "key")),
        value_(random_values(length, "value")) {
    options_.mask = &mask;
    options_.form = form;
  }

  void run() {
    tape_.clear();
    const Var query = tape_.leaf(query_), key = tape_.leaf(key_), value = tape_.leaf(value_);
    const Var y = attention(query, key, value, {}, options_);
    static_cast<void>(tape_.backward(y, Array::full(y.shape(), 1, y.dtype())));
  }
  // What a call holds at most, its operands aside.
  [[nodiscard]] std::int64_t peak_bytes() {
    tape_.clear();
    const std::int64_t before = buffer_pool::statistics().live_bytes;
    buffer_pool::reset_peak();
    run();
    return buffer_pool::statistics().peak_bytes - before;
  }

 private:
  Array query_, key_, value_;
  AttentionOptions options_;
  Tape tape_;
};

struct Line {
  std::int64_t length;
  double stored_ms, tiled_ms;
  std::int64_t stored_bytes, tiled_bytes;
};

// Least squares of ln time over ln length.
double slope(const std::vector<Line>& lines) {
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  const auto count = static_cast<double>(lines.size());
  const auto x = [](const Line& line) { return std::log(static_cast<double>(line.length)); };
  const auto y = [](const Line& line) { return std::log(line.tiled_ms); };
  for (const Line& line : lines) mean_x += x(line) / count, mean_y += y(line) / count;
  for (const Line& line : lines) {
    xy += (x(line) - mean_x) * (y(line) - mean_y);
    xx += (x(line) - mean_x) * (x(line) - mean_x);
  }
  return xy / xx;
}

void measure(const char* name, const Mask& mask, std::int64_t longest, int rounds) {
  std::vector<Line> lines;
  for (std::int64_t length = kShortest; length <= longest; length *= 2) {
    Attention stored(length, mask, AttentionForm::stored);
    Attention tiled(length, mask, AttentionForm::tiled);
    const std::int64_t stored_bytes = stored.peak_bytes(), tiled_bytes = tiled.peak_bytes();
    const std::function<void()> pieces[] = {[&] { stored.run(); }, [&] { tiled.run(); }};
    const auto times = measure_in_turns(pieces, rounds);
    lines.push_back({length, spread_of(times[0]).median, spread_of(times[1]).median, stored_bytes,
                     tiled_bytes});
  }
  fmt::print("{} attention, medians of {} rounds\n", name, rounds);
  fmt::print("{:>6}  {:>10}  {:>10}  {:>10}  {:>10}  {:>11}\n", "length", "stored ms", "tiled ms",
             "stored MiB", "tiled MiB", "tiled grows");
  const auto mebibytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const double growth = i == 0 ? 0
                                 : static_cast<double>(line.tiled_bytes) /
                                       static_cast<double>(lines[i - 1].tiled_bytes);
    fmt::print("{:>6}  {:>10.3f}  {:>10.3f}  {:>10.2f}  {:>10.2f}  {:>11}\n", line.length,
               line.stored_ms, line.tiled_ms, mebibytes(line.stored_bytes),
               mebibytes(line.tiled_bytes), i == 0 ? "" : fmt::format("{:.2f}x", growth));
  }
  fmt::print("time of the tiled form grows with length to the power {:.2f}\n", slope(lines));
}

// Masks that keep few pairs, each in the form that is chosen by itself, beside full attention.
void measure_patterns(std::int64_t longest, int rounds) {
  struct Pattern {
    const char* name;
    Mask mask;
  };
  const Pattern patterns[] = {
      {"causal+window:64", Mask::causal() & Mask::window(64)},
      {"causal+dilated:64:4", Mask::causal() & Mask::sparse({.window = 64, .dilation = 4})},
      {"causal+global:32:1", Mask::causal() & Mask::sparse({.window = 32, .globals = 1})},
      {"causal+bigbird:16:1:2",
       Mask::causal() & Mask::sparse({.window = 16, .globals = 1, .random = 2, .block = 16})}};
  fmt::print("masks that keep few pairs, medians of {} rounds\n", rounds);
  fmt::print("{:<22}{:>8}{:>10}{:>10}{:>10}{:>12}\n", "mask", "length", "kept", "full ms", "ms",
             "of full");
  const Mask everything;
  for (const Pattern& pattern : patterns) {
    for (std::int64_t length = 4 * kShortest; length <= longest; length *= 4) {
      Attention full(length, everything, AttentionForm::automatic);
      Attention masked(length, pattern.mask, AttentionForm::automatic);
      const std::function<void()> pieces[] = {[&] { full.run(); }, [&] { masked.run(); }};
      const auto times = measure_in_turns(pieces, rounds);
      std::int64_t kept = 0;
      std::vector<std::uint8_t> row(static_cast<std::size_t>(length));
      for (std::int64_t i = 0; i < length; ++i)
        kept += pattern.mask.fill_row(0, 0, i, length, length, row);
      const double full_ms = spread_of(times[0]).median, ms = spread_of(times[1]).median;
      fmt::print("{:<22}{:>8}{:>10.4f}{:>10.3f}{:>10.3f}{:>12.3f}\n", pattern.name, length,
                 static_cast<double>(kept) / static_cast<double>(length * length), full_ms, ms,
                 ms / full_ms);
    }
  }
}

int run(int argc, char** argv) {
  cxxopts::Options options("attention_benchmark", "Times attention over sequences that double.");
  options.add_options()("rounds", "rounds that medians are taken of",
                        cxxopts::value<int>()->default_value("11"))(
      "longest", "longest sequence", cxxopts::value<std::int64_t>()->default_value("4096"))(
      "help", "print this");
  const cxxopts::ParseResult arguments = options.parse(argc, argv);
  if (arguments.count("help")) {
    fmt::print("{}", options.help());
    return 0;
  }
  const int rounds = checked_rounds(arguments["rounds"].as<int>());
  const auto longest = arguments["longest"].as<std::int64_t>();
  if (longest < 2 * kShortest)
    throw ConfigError(fmt::format("--longest: {} is below {}", longest, 2 * kShortest));
  measure("full", Mask::none(), longest, rounds);
  measure("causal", Mask::causal(), longest, rounds);
  measure_patterns(longest, rounds);
  return 0;
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  using namespace attune::benchmarks;
  return run_program("attention_benchmark", [&] { return run(argc, argv); });
}
