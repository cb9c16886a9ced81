#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "attune/model/transformer.h"
#include "nn/layer_test.h"

// What the tests of whole models share.
namespace attune {

// Two layers with widths that are all different.
[[nodiscard]] inline TransformerConfig small_config() {
  TransformerConfig config;
  config.vocabulary = 11;
  config.block_size = 16;
  config.n_layer = 2;
  config.n_head = 2;
  config.n_embd = 8;
  config.d_ff = 13;
  config.bias = true;
  return config;
}

// Tokens in [0, vocabulary), the same for the same seed.
[[nodiscard]] inline std::vector<std::int32_t> random_tokens(std::int64_t count,
                                                             std::uint64_t seed = 1,
                                                             std::uint32_t vocabulary = 11) {
  RandomCursor cursor(Randomness{.seed = seed}.stream("model_test"), 0);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(cursor.below(vocabulary)));
  }
  return tokens;
}

// A model in float64 whose parameters all matter.
[[nodiscard]] inline Transformer random_model(const TransformerConfig& config,
                                              DType dtype = DType::float64) {
  Transformer model(config, 1, dtype);
  randomize(model.parameters());
  return model;
}

// Logits of one example.
[[nodiscard]] inline Array logits_of(const Transformer& model,
                                     const std::vector<std::int32_t>& tokens,
                                     const Pass& pass = {}) {
  return model.logits({tokens, 1, static_cast<std::int64_t>(tokens.size())}, pass).value();
}

// Logits through a cache, `chunk` tokens a pass.
[[nodiscard]] inline Array cached_logits(const Transformer& model,
                                         const std::vector<std::int32_t>& tokens,
                                         std::int64_t chunk) {
  const auto time = static_cast<std::int64_t>(tokens.size());
  KvCache cache = model.make_cache(1, time);
  Pass pass;
  pass.cache = &cache;
  std::vector<double> all;
  for (std::int64_t begin = 0; begin < time; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, time);
    const std::vector<double> part =
        logits_of(model, {tokens.begin() + begin, tokens.begin() + end}, pass).to_vector();
    all.insert(all.end(), part.begin(), part.end());
  }
  return Array::from({1, time, model.config().vocabulary}, all, model.dtype());
}

// Tokens [begin, end) of the second axis.
[[nodiscard]] inline Array columns_of(const Array& x, std::int64_t begin, std::int64_t end) {
  std::vector<double> part;
  for (std::int64_t b = 0; b < x.shape()[0]; ++b) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t c = 0; c < x.shape()[2]; ++c) part.push_back(x.at({b, t, c}));
    }
  }
  return Array::from(x.shape().with(1, end - begin), part, x.dtype());
}

// |a - b|, the largest over all elements.
[[nodiscard]] inline double distance(const Array& a, const Array& b) {
  const std::vector<double> left = a.to_vector(), right = b.to_vector();
  double largest = left.size() == right.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    largest = std::max(largest, std::abs(left[i] - right[i]));
  }
  return largest;
}

}  // namespace attune
