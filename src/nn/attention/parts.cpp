#include "nn/attention/parts.h"

#include <fmt/format.h>

#include <vector>

#include "attune/core/error.h"
#include "attune/ops/select.h"

namespace attune::attention_parts {

Mixture mix(const Var& scores, const Var& value, const AttentionOptions& options) {
  const Shape& s = scores.shape();  // [batch, heads, query, key]
  const Var no_query(Array::zeros({s[0], s[2], s[1]}, scores.dtype()));
  const Var no_key(Array::zeros({s[0], s[3], s[1]}, scores.dtype()));
  AttentionOptions own = options;
  own.heads = s[1];
  Mixture result;
  AttentionStages stages;
  stages.pattern = [&](const Var& weights) { return result.weights = weights; };
  result.mixed = attention_textbook(no_query, no_key, value, scores, own, stages);
  return result;
}

Var select_kept(const Var& x, const Mask& mask, std::int64_t query) {
  const std::int64_t batch = x.shape()[0], key = x.shape()[1];
  mask.check(batch, 1, query, key);
  std::vector<double> kept;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t j = 0; j < key; ++j) {
      bool any = false;
      for (std::int64_t i = 0; i < query && !any; ++i) any = mask.keeps(b, 0, i, j, query, key);
      kept.push_back(any ? 1 : 0);
    }
  }
  const Array flags = Array::from({batch, key, 1}, kept, x.dtype());
  return where(flags, x, Var(Array::zeros({}, x.dtype())));
}

AttentionOptions options_of(const Pass& pass, std::int64_t heads, int layer) {
  AttentionOptions options;
  options.heads = heads;
  if (pass.statistics) options.statistics = pass.statistics->layer(layer);
  return options;
}

void expect_rank(const char* layer, const char* what, const Var& x, int rank) {
  if (x.shape().rank() == rank) return;
  throw ShapeError(
      fmt::format("{}: {} {}, expected rank {}", layer, what, to_string(x.shape()), rank));
}

void expect_width(const char* layer, const char* what, const Var& x, std::int64_t width) {
  if (x.shape().rank() == 3 && x.shape()[2] == width) return;
  throw ShapeError(fmt::format("{}: {} {}, expected [batch, time, {}]", layer, what,
                               to_string(x.shape()), width));
}

}  // namespace attune::attention_parts
