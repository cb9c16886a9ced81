// Times every registered kind of attention as a layer, forward and backward, over sequences that
// double, and prints the slope of its time: the exponent of the length, 1 for those that are linear
// in it. One example, 4 heads of width 16, causal, one thread, float32.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <cxxopts.hpp>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/nn/self_attention.h"
#include "measurement.h"

namespace attune::benchmarks {
namespace {

constexpr std::int64_t kModel = 64;
constexpr std::int64_t kShortest = 512;

class Layer final {
 public:
  Layer(const std::string& kind, std::int64_t length)
      : scope_(store_, 1, DType::float32),
        encoding_(make_positional_encoding("none", scope_, {}, init_)),
        layer_(make_self_attention(kind, scope_, {.model = kModel, .heads = 4, .head_dim = 16},
                                   *encoding_, init_, 0)),
        x_(Initializer::normal(1).make({1, length, kModel}, DType::float32,
                                       Randomness{}.stream("x"))) {}

  void run() {
    tape_.clear();
    Pass pass;
    pass.tape = &tape_;
    const Var y = (*layer_)(tape_.leaf(x_), {}, pass);
    static_cast<void>(tape_.backward(y, Array::full(y.shape(), 1, y.dtype())));
  }

 private:
  ParameterStore store_;
  Scope scope_;
  InitScheme init_{"xavier", 0.02, 1};
  std::unique_ptr<PositionalEncoding> encoding_;
  std::unique_ptr<SelfAttention> layer_;
  Array x_;
  Tape tape_;
};

// Least squares of ln time over ln length, of lengths that double.
double slope(const std::vector<double>& milliseconds) {
  const auto count = static_cast<double>(milliseconds.size());
  double mean_y = 0, xy = 0, xx = 0;
  for (const double time : milliseconds) mean_y += std::log(time) / count;
  for (std::size_t i = 0; i < milliseconds.size(); ++i) {
    const double x = std::log(2) * (static_cast<double>(i) - (count - 1) / 2);
    xy += x * (std::log(milliseconds[i]) - mean_y);
    xx += x * x;
  }
  return xy / xx;
}

void measure(const std::string& kind, std::int64_t longest, int rounds) {
  std::vector<std::unique_ptr<Layer>> layers;
  std::vector<std::function<void()>> pieces;
  for (std::int64_t length = kShortest; length <= longest; length *= 2) {
    layers.push_back(std::make_unique<Layer>(kind, length));
    pieces.push_back([layer = layers.back().get()] { layer->run(); });
  }
  std::vector<double> medians;
  fmt::print("{:<16}", kind);
  for (const std::vector<double>& times : measure_in_turns(pieces, rounds)) {
    medians.push_back(spread_of(times).median);
    fmt::print("  {:>9.3f}", medians.back());
  }
  fmt::print("  {:>5.2f}\n", slope(medians));
}

int run(int argc, char** argv) {
  cxxopts::Options options("attention_kinds_benchmark",
                           "Times kinds of attention over sequences that double.");
  options.add_options()("kind", "one kind alone", cxxopts::value<std::string>()->default_value(""))(
      "rounds", "rounds that medians are taken of", cxxopts::value<int>()->default_value("11"))(
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
  fmt::print("ms forward and backward, medians of {} rounds\n{:<16}", rounds, "length");
  for (std::int64_t length = kShortest; length <= longest; length *= 2)
    fmt::print("  {:>9}", length);
  fmt::print("  slope\n");
  const auto only = arguments["kind"].as<std::string>();
  for (const AttentionInfo& info : list_attention())
    if (only.empty() || only == info.name) measure(info.name, longest, rounds);
  return 0;
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  using namespace attune::benchmarks;
  return run_program("attention_kinds_benchmark", [&] { return run(argc, argv); });
}
