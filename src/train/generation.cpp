#include "attune/train/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/ops/shaping.h"

namespace attune {
namespace {

// Indices of the logits, largest first, equals in the order of their index.
std::vector<std::int32_t> by_size(std::span<const double> logits) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

// Reads tokens behind what the cache holds; the logits of the last one.
std::vector<double> read(const Transformer& model, std::span<const std::int32_t> tokens,
                         KvCache& cache) {
  Pass pass;
  pass.cache = &cache;
  const auto time = static_cast<std::int64_t>(tokens.size());
  const Var hidden = model.hidden({tokens, 1, time}, pass);
  return model.head(slice(hidden, 1, time - 1, time), pass).value().to_vector();
}

}  // namespace

void SamplingOptions::check() const {
  if (!(temperature >= 0) || std::isinf(temperature)) {
    throw ConfigError(
        fmt::format("--temperature: {} is not a number from 0", format_float(temperature)));
  }
  if (top_k < 0) throw ConfigError(fmt::format("--top-k: {} is below 0", top_k));
  if (!(top_p >= 0 && top_p <= 1)) {
    throw ConfigError(fmt::format("--top-p: {} is outside [0, 1]", format_float(top_p)));
  }
}

std::int32_t sample_token(std::span<const double> logits, const SamplingOptions& options,
                          double uniform) {
  const std::vector<std::int32_t> order = by_size(logits);
  if (options.temperature == 0) return order.front();
  const auto value = [&](std::size_t rank) {
    return logits[static_cast<std::size_t>(order[rank])];
  };

  std::size_t kept = order.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(options.top_k));
  std::vector<double> weights(kept);
  double total = 0;
  for (std::size_t rank = 0; rank < kept; ++rank) {
    weights[rank] = std::exp((value(rank) - value(0)) / options.temperature);
    total += weights[rank];
  }
  // The nucleus; the tolerance keeps a sum such as .4 + .3 + .1 from missing .8 by rounding.
  double mass = 0;
  std::size_t nucleus = 0;
  while (nucleus < kept && (nucleus == 0 || mass < options.top_p * total * (1 - 1e-12))) {
    mass += weights[nucleus++];
  }
  double threshold = uniform * mass;
  for (std::size_t rank = 0; rank < nucleus; ++rank) {
    if (threshold < weights[rank]) return order[rank];
    threshold -= weights[rank];
  }
  return order[nucleus - 1];
}

std::int64_t generate(const Transformer& model, std::span<const std::int32_t> prompt,
                      const GenerationOptions& options,
                      const std::function<void(std::int32_t)>& on_token,
                      const std::function<void()>& on_rewind) {
  if (prompt.empty()) throw ValueError("generate: the prompt is empty");
  options.sampling.check();
  const RandomStream stream = options.random.stream("sample");
  const std::int64_t limit = model.encoding().position_limit();
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  bool rewound = false;
  // Keeps the last half of the block where the encoding has no position for what would follow.
  const auto fitting = [&](std::span<const std::int32_t> all) {
    if (limit == 0 || static_cast<std::int64_t>(all.size()) <= limit) return all;
    if (!rewound && on_rewind) on_rewind();
    rewound = true;
    return all.last(static_cast<std::size_t>(std::max<std::int64_t>(limit / 2, 1)));
  };

  const std::int64_t longest = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
  KvCache cache = model.make_cache(1, limit == 0 ? longest : std::min(longest, limit));
  std::span<const std::int32_t> unread = fitting(tokens);
  std::int64_t made = 0;
  while (made < options.max_new_tokens) {
    const std::vector<double> logits = read(model, unread, cache);
    const std::int32_t token =
        sample_token(logits, options.sampling, stream.uniform(static_cast<std::uint64_t>(made)));
    ++made;
    on_token(token);
    if (token == options.stop) break;
    tokens.push_back(token);
    unread = std::span(tokens).last(1);
    if (limit > 0 && cache.filled() == limit) {
      cache.clear();
      unread =
          std::span(tokens).last(static_cast<std::size_t>(std::max<std::int64_t>(limit / 2, 1)));
      if (!rewound && on_rewind) on_rewind();
      rewound = true;
    }
  }
  return made;
}

}  // namespace attune
