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

// A model and what it has read, with a cache that need not be longer than the model looks back.
class PromptReader final {
 public:
  // longest: the tokens that the cache must hold at a time where the model looks back at all.
  PromptReader(const Transformer& model, std::int64_t longest, std::int64_t chunk)
      : model_(model),
        sight_(model.sight()),
        chunk_(chunk > 0    ? chunk
               : sight_ > 0 ? std::max(sight_, kLeastChunk)
                            : longest),
        cache_(model.make_cache(1, sight_ > 0 ? std::min(longest, 2 * sight_ + chunk_) : longest)) {
  }

  [[nodiscard]] std::int64_t read() const { return cache_.read(); }
  void clear() { cache_.clear(); }

  // Reads tokens behind those before; the logits of the last one. In one pass where they have to be
  // read as a whole, else some at a time.
  std::vector<double> operator()(std::span<const std::int32_t> tokens, bool whole) {
    const std::size_t step = whole ? tokens.size() : static_cast<std::size_t>(chunk_);
    Var hidden;
    for (std::size_t begin = 0; begin < tokens.size(); begin += step) {
      const auto part = tokens.subspan(begin, std::min(tokens.size() - begin, step));
      const auto time = static_cast<std::int64_t>(part.size());
      if (sight_ > 0 && cache_.filled() + time > cache_.capacity())
        cache_.forget(cache_.filled() - (sight_ - 1));
      Pass pass;
      pass.cache = &cache_;
      hidden = model_.hidden({part, 1, time}, pass);
    }
    const std::int64_t time = hidden.shape()[1];
    return model_.head(slice(hidden, 1, time - 1, time), {}).value().to_vector();
  }

 private:
  static constexpr std::int64_t kLeastChunk = 64;
  const Transformer& model_;
  std::int64_t sight_;
  std::int64_t chunk_;
  KvCache cache_;
};

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
  const std::int64_t limit = model.length_limit();
  const std::int64_t cache_limit = model.encoding().cache_limit();
  // What a token without the causal mask says changes with every token after it.
  const bool rereads = !model.can_use_cache();
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  const std::int64_t longest = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
  PromptReader reader(model, limit == 0 ? longest : std::min(longest, limit),
                      options.prefill_chunk);
  std::int64_t begin = 0;  // of the tokens that are still read
  bool rewound = false;
  std::int64_t made = 0;
  while (made < options.max_new_tokens) {
    const auto count = static_cast<std::int64_t>(tokens.size());
    if (limit > 0 && count - begin > limit) {
      begin = count - std::max<std::int64_t>(limit / 2, 1);
      reader.clear();
      if (!rewound && on_rewind) on_rewind();
      rewound = true;
    }
    const bool cache_is_right = cache_limit == 0 || count - begin <= cache_limit;
    if (rereads || !cache_is_right) reader.clear();
    const auto unread = static_cast<std::size_t>(begin + reader.read());
    const std::vector<double> logits =
        reader(std::span(tokens).subspan(unread), /*whole=*/rereads || !cache_is_right);
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
