#include "configuration.h"

#include "attune/core/error.h"
#include "attune/core/random.h"
#include "attune/core/text.h"

namespace attune::benchmarks {
namespace {

constexpr std::int64_t kVocabulary = 65;

Configuration make(std::string name, std::int64_t layers, std::int64_t heads, std::int64_t width,
                   std::int64_t context, std::int64_t batch) {
  TransformerConfig model;
  model.vocabulary = kVocabulary;
  model.block_size = context;
  model.n_layer = layers;
  model.n_head = heads;
  model.n_embd = width;
  model.positions = "learned";
  model.tie_head = true;
  model.bias = false;
  model.init = "gpt2";
  model.dropout = 0;
  return {std::move(name), model.resolved(), batch};
}

}  // namespace

std::span<const Configuration> configurations() {
  static const std::vector<Configuration> all{
      make("char", 4, 4, 128, 64, 12), make("small", 2, 4, 64, 32, 64),
      make("toy", 2, 2, 32, 16, 32), make("wide", 6, 6, 384, 256, 8)};
  return all;
}

const Configuration& configuration(std::string_view name) {
  std::vector<std::string> names;
  for (const Configuration& candidate : configurations()) {
    if (candidate.name == name) return candidate;
    names.push_back(candidate.name);
  }
  throw ConfigError("unknown configuration " + std::string(name) +
                    ", expected char, small, toy or wide" + did_you_mean(name, names));
}

Batch random_examples(const Configuration& configuration, std::int64_t examples) {
  const RandomStream stream = Randomness{}.stream("benchmark.tokens");
  Batch batch;
  batch.examples = examples;
  batch.time = configuration.model.block_size;
  const std::int64_t count = examples * batch.time;
  RandomCursor cursor(stream, 0);
  const auto token = [&] {
    return static_cast<std::int32_t>(
        cursor.below(static_cast<std::uint32_t>(configuration.model.vocabulary)));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    batch.tokens.push_back(token());
    batch.targets.push_back(token());
  }
  return batch;
}

}  // namespace attune::benchmarks
