#include "attune/observe/attention_maps.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/observe/taps.h"

namespace attune {
namespace {

void check(const Transformer& model, std::span<const std::int32_t> tokens) {
  if (tokens.empty()) throw ValueError("attention maps: the input has no token");
  const std::int64_t limit = model.length_limit();
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (limit > 0 && length > limit)
    throw ValueError(
        fmt::format("attention maps: the input has {} tokens, the model has positions "
                    "for {}",
                    length, limit));
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= model.config().vocabulary)
      throw ValueError(fmt::format("attention maps: token {} is outside the vocabulary of {}",
                                   token, model.config().vocabulary));
  }
}

double term(double p) { return p > 0 ? -p * std::log(p) : 0; }

// Of one row of weights; `rest` says that what they lack to 1 is the weight of a sink.
double entropy_of(std::span<const double> row, bool rest) {
  double sum = 0;
  for (const double w : row) sum += w;
  const double sink = rest ? std::max(1 - sum, 0.0) : 0;
  if (sum + sink <= 0) return 0;
  double entropy = term(sink / (sum + sink));
  for (const double w : row) entropy += term(w / (sum + sink));
  return entropy;
}

}  // namespace

AttentionPatterns attention_patterns(const Transformer& model, std::span<const std::int32_t> tokens,
                                     Hooks* hooks) {
  check(model, tokens);
  const TransformerConfig& config = model.config();
  AttentionPatterns result;
  result.tokens.assign(tokens.begin(), tokens.end());
  result.layers = config.n_layer;
  result.query = result.key = static_cast<std::int64_t>(tokens.size());
  result.statistics = model.make_statistics();
  if (result.statistics.heads() == 0) {
    result.missing = fmt::format(
        "--attention {}: there are no maps, it mixes values without a weight for each pair of "
        "tokens",
        config.attention);
    return result;
  }
  Taps taps({HookPoint::pattern});
  HookChain chain(hooks ? std::vector<Hooks*>{hooks, &taps} : std::vector<Hooks*>{&taps});
  Pass pass;
  pass.hooks = &chain;
  pass.statistics = &result.statistics;
  static_cast<void>(model.hidden({tokens, 1, result.key}, pass));

  for (int layer = 0; layer < config.n_layer; ++layer) {
    const Array& pattern = taps.at(HookPoint::pattern, layer);  // [1, heads, query, key]
    result.heads = pattern.shape()[1];
    const std::vector<double> values = pattern.to_vector();
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  const auto key = static_cast<std::size_t>(result.key);
  for (std::size_t begin = 0; begin < result.weights.size(); begin += key)
    result.entropies.push_back(
        entropy_of(std::span(result.weights).subspan(begin, key), config.sink != Sink::none));
  return result;
}

}  // namespace attune
