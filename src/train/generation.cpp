#include "attune/train/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// -infinity is a token that is never drawn; anything else that is not finite has no distribution.
void check_logits(std::span<const double> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    any |= std::isfinite(logits[i]);
    if (!std::isnan(logits[i]) && logits[i] != std::numeric_limits<double>::infinity()) continue;
    throw ValueError(fmt::format("sample: the logit of token {} is {}, expected a finite number", i,
                                 format_float(logits[i])));
  }
  if (!any) throw ValueError("sample: there is no finite logit to draw from");
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
  check_logits(logits);
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
  const double wanted = options.top_p < 1 ? options.top_p * total * (1 - 1e-12) : total;
  std::size_t nucleus = 0;
  while (nucleus < kept && (nucleus == 0 || options.top_p == 1 || mass < wanted)) {
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
  // What a token without the causal mask says changes with every token after it.
  const bool rereads = !model.can_use_cache();
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  const std::int64_t longest = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
  KvCache cache = model.make_cache(1, limit == 0 ? longest : std::min(longest, limit));
  std::int64_t begin = 0;  // of the tokens that are still read
  bool rewound = false;
  std::int64_t made = 0;
  while (made < options.max_new_tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    if (limit > 0 && count - begin > limit) {
      begin = count - std::max<std::int64_t>(limit / 2, 1);
      cache.clear();
      if (!rewound && on_rewind) on_rewind();
      rewound = true;
    }
    if (rereads) cache.clear();
    const auto unread = static_cast<std::size_t>(begin + cache.filled());
    const std::vector<double> logits = read(model, std::span(tokens).subspan(unread), cache);
    const std::int32_t token =
        sample_token(logits, options.sampling, stream.uniform(static_cast<std::uint64_t>(made)));
    ++made;
    on_token(token);
    if (token == options.stop) break;
    tokens.push_back(token);
  }
  return made;
}

}  // namespace attune
