// Times the generation of single tokens through a key-value cache, at several positions, beside the
// attention of such a token alone, and prints a table. On one thread, in float32.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <cxxopts.hpp>

#include "attune/core/error.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"
#include "attune/model/transformer.h"
#include "attune/ops/key_value_buffer.h"
#include "kernels/gemm.h"
#include "measurement.h"

namespace attune::benchmarks {
namespace {

// Tokens before and behind a position whose mean is its time.
constexpr std::int64_t kHalfWindow = 16;

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

Array random_values(const Shape& shape) {
  Array x = Array::uninitialized(shape, DType::float32);
  RandomCursor cursor(Randomness{}.stream("benchmark.generation"), 0);
  for (float& value : x.mutable_data<float>()) value = static_cast<float>(2 * cursor.uniform() - 1);
  return x;
}

// The attention of one token in all layers, each over a cache of its own.
class AttentionAlone final {
 public:
  AttentionAlone(const TransformerConfig& config, std::int64_t capacity)
      : query_(random_values({1, 1, config.n_embd})) {
    options_.heads = config.n_head;
    options_.mask = &mask_;
    const Array tokens = random_values({1, capacity, config.n_embd});
    for (std::int64_t layer = 0; layer < config.n_layer; ++layer) {
      buffers_.emplace_back(1, capacity, config.n_embd, config.n_embd, DType::float32);
      buffers_.back().write(0, tokens, tokens);
    }
  }
  [[nodiscard]] double milliseconds(std::int64_t keys) const {
    constexpr int kTimes = 2 * kHalfWindow;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) {
      for (const KeyValueBuffer& buffer : buffers_)
        static_cast<void>(attention_over_cache(query_, buffer, keys, {}, options_));
    }
    return milliseconds_since(begin) / kTimes;
  }

 private:
  Array query_;
  Mask mask_ = Mask::causal();
  AttentionOptions options_;
  std::vector<KeyValueBuffer> buffers_;
};

// One text from an empty cache on: the milliseconds of each token.
std::vector<double> generate(const Transformer& model, std::int64_t count) {
  KvCache cache = model.make_cache(1, count);
  Pass pass;
  pass.cache = &cache;
  std::vector<double> times;
  for (std::int64_t t = 0; t < count; ++t) {
    const auto token = static_cast<std::int32_t>(t % model.config().vocabulary);
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(model.logits({{&token, 1}, 1, 1}, pass));
    times.push_back(milliseconds_since(begin));
  }
  return times;
}

double mean_around(const std::vector<double>& times, std::int64_t position) {
  double sum = 0;
  for (std::int64_t t = position - kHalfWindow; t < position + kHalfWindow; ++t)
    sum += times[static_cast<std::size_t>(t)];
  return sum / (2 * kHalfWindow);
}

TransformerConfig config_of(const std::string& positions, std::int64_t context) {
  TransformerConfig config;
  config.vocabulary = 65;
  config.block_size = context;
  config.n_layer = 4;
  config.n_head = 4;
  config.n_embd = 128;
  config.positions = positions;
  config.tie_head = true;
  config.bias = false;
  config.dropout = 0;
  return config.resolved();
}

void measure(const std::string& encoding, const std::vector<std::int64_t>& positions, int rounds) {
  const std::int64_t longest = *std::max_element(positions.begin(), positions.end()) + kHalfWindow;
  const TransformerConfig config = config_of(encoding, longest);
  const Transformer model(config, 1);
  const AttentionAlone attention(config, longest);
  std::vector<std::vector<double>> token_ms(positions.size()), attention_ms(positions.size());
  static_cast<void>(generate(model, longest));
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> times = generate(model, longest);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      token_ms[i].push_back(mean_around(times, positions[i]));
      attention_ms[i].push_back(attention.milliseconds(positions[i]));
    }
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const Spread token = spread_of(token_ms[i]);
    fmt::print("{:<11} {:>8}  {:.3f} ({:.3f}-{:.3f})  {:>8.0f}  {:>6.3f}  {:>4.0f} %\n", encoding,
               positions[i], token.median, token.p25, token.p75, 1e3 / token.median,
               spread_of(attention_ms[i]).median,
               100 * spread_of_ratios(attention_ms[i], token_ms[i]).median);
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  cxxopts::Options options("generation_benchmark",
                           "Times tokens that a 4/4/128 model makes through a key-value cache.");
  options.add_options()("encodings", "positional encodings",
                        cxxopts::value<std::vector<std::string>>()->default_value("learned,alibi"))(
      "positions", "where in the text",
      cxxopts::value<std::vector<std::int64_t>>()->default_value("64,256,1024"))(
      "rounds", "rounds that the median is taken of", cxxopts::value<int>()->default_value("11"))(
      "help", "print this");
  options.parse_positional("encodings");
  options.positional_help("[ENCODING...]");
  const cxxopts::ParseResult parsed = options.parse(argc, argv);
  if (parsed.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  const int rounds = checked_rounds(parsed["rounds"].as<int>());
  const auto positions = parsed["positions"].as<std::vector<std::int64_t>>();
  for (const std::int64_t position : positions) {
    if (position < kHalfWindow)
      throw ConfigError(fmt::format("--positions: {} is below {}", position, kHalfWindow));
  }
  fmt::print("{} rounds, batch 1, one thread; BLAS kernel {}\n", rounds, kernels::blas_kernel());
  fmt::print("{:<11} {:>8}  {:<20} {:>8}  {:>6}  {:>6}\n", "encoding", "position",
             "ms/token (p25-p75)", "tokens/s", "att ms", "share");
  for (const std::string& encoding : parsed["encodings"].as<std::vector<std::string>>())
    measure(encoding, positions, rounds);
  return 0;
}

}  // namespace
}  // namespace attune::benchmarks

int main(int argc, char** argv) {
  using namespace attune::benchmarks;
  return run_program("generation_benchmark", [&] { return run(argc, argv); });
}
