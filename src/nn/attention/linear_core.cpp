#include <algorithm>
#include <limits>
#include <vector>

#include "attune/nn/attention/linear.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"

namespace attune {
namespace {

// Tokens of a chunk. A token costs chunk * (features + value_dim) within it and 2 features *
// value_dim for the state: about equal for heads of this width.
constexpr std::int64_t kChunk = 32;
// Tokens that are worked on together: a few hundred kilobytes.
constexpr std::int64_t kPart = 512;

// Values with a 1 behind them, so that S and z are one product.
Var with_one(const Var& value) {
  return concat({value, Var(Array::full(value.shape().with(-1, 1), 1, value.dtype()))}, -1);
}

// (phi(q) S, phi(q) z) -> their ratio; 0 where no key has features.
Var ratio(const Var& sums) {
  const std::int64_t width = sums.shape().last() - 1;
  const Var smallest(Array::scalar(std::numeric_limits<float>::min(), sums.dtype()));
  return slice(sums, -1, 0, width) / maximum(slice(sums, -1, width, width + 1), smallest);
}

// phi(k)^T (v, 1), the state that these tokens alone leave.
Var state_of(const Var& key_features, const Var& value_and_one) {
  return matmul(key_features, value_and_one, Transpose::yes);
}

// [batch, heads, time, width] -> [batch, heads, chunks, kChunk, width], zeros at the end.
Var chunked(const Var& x, std::int64_t chunk) {
  const Shape& shape = x.shape();
  const std::int64_t chunks = (shape[2] + chunk - 1) / chunk;
  const std::int64_t missing = chunks * chunk - shape[2];
  const Var rest(Array::zeros(shape.with(2, missing), x.dtype()));
  return reshape(missing == 0 ? x : concat({x, rest}, 2),
                 {shape[0], shape[1], chunks, chunk, shape[3]});
}

// 1 where a token of a chunk stands at or before another: [chunk, chunk].
Array at_or_before(std::int64_t chunk, DType dtype) {
  std::vector<double> flags;
  for (std::int64_t i = 0; i < chunk; ++i)
    for (std::int64_t j = 0; j < chunk; ++j) flags.push_back(j <= i ? 1 : 0);
  return Array::from({chunk, chunk}, flags, dtype);
}

struct Part {
  Var sums;   // (phi(q) S, phi(q) z) of these tokens: [batch, heads, time, value_dim + 1]
  Var state;  // what they and all before them leave: [batch, heads, features, value_dim + 1]
};

// As many queries as keys; before: the state of earlier tokens, or null.
Part causal_part(const Var& query, const Var& key, const Var& value, const Var& before) {
  const std::int64_t time = query.shape()[2],
                     chunk = std::min(kChunk, std::max<std::int64_t>(time, 1));
  const Var q = chunked(query, chunk), k = chunked(key, chunk), v = chunked(value, chunk);
  const std::int64_t chunks = q.shape()[2];

  // The state before each chunk and behind the last: [batch, heads, chunks + 1, features,
  // value_dim + 1].
  const Var states = state_of(k, v);
  const Shape one = states.shape().with(2, 1);
  const Var first =
      before.is_null() ? Var(Array::zeros(one, states.dtype())) : reshape(before, one);
  const Var reached = cumsum(concat({first, states}, 2), 2);

  const Var zero(Array::zeros({}, q.dtype()));
  const Var within =
      where(at_or_before(chunk, q.dtype()), matmul(q, k, Transpose::no, Transpose::yes), zero);
  const Var sums = matmul(within, v) + matmul(q, slice(reached, 2, 0, chunks));
  const Shape flat{query.shape()[0], query.shape()[1], chunks * chunk, v.shape().last()};
  const Shape& state = states.shape();
  return {slice(reshape(sums, flat), 2, 0, time),
          reshape(slice(reached, 2, chunks, chunks + 1), {state[0], state[1], state[3], state[4]})};
}

// Keys [begin, end) as what linear attention reads of them.
class Keys final {
 public:
  Keys(const FeatureMap& features, const Var& key, const Var& value, const Array& keep)
      : features_(features), key_(key), value_(value), keep_(keep) {}

  [[nodiscard]] Var features(std::int64_t begin, std::int64_t end) const {
    const Var found = features_.of_keys(slice(key_, 2, begin, end));
    if (keep_.is_null()) return found;
    return where(slice(keep_, 2, begin, end).value(), found, Var(Array::zeros({}, found.dtype())));
  }
  [[nodiscard]] Var values(std::int64_t begin, std::int64_t end) const {
    return with_one(slice(value_, 2, begin, end));
  }
  [[nodiscard]] Var state(std::int64_t begin, std::int64_t end) const {
    return state_of(features(begin, end), values(begin, end));
  }
  [[nodiscard]] std::int64_t count() const { return key_.shape()[2]; }

 private:
  const FeatureMap& features_;
  const Var& key_;
  const Var& value_;
  const Var keep_;
};

// All tokens, a part at a time, so that what a part works with stays in the caches. The queries are
// of the last keys.
Var causal_sums(const FeatureMap& features, const Var& query, const Keys& keys) {
  const std::int64_t time = query.shape()[2], earlier = keys.count() - time;
  Var state = earlier == 0 ? Var() : keys.state(0, earlier);
  std::vector<Var> sums;
  for (std::int64_t begin = 0; begin < time; begin += kPart) {
    const std::int64_t end = std::min(begin + kPart, time);
    Part part = causal_part(features.of_queries(slice(query, 2, begin, end)),
                            keys.features(earlier + begin, earlier + end),
                            keys.values(earlier + begin, earlier + end), state);
    sums.push_back(part.sums);
    state = part.state;
  }
  return sums.size() == 1 ? sums[0] : concat(sums, 2);
}

// Of what are features already.
class NoMap final : public FeatureMap {
 public:
  [[nodiscard]] Var of_queries(const Var& query) const override { return query; }
  [[nodiscard]] Var of_keys(const Var& key) const override { return key; }
};

}  // namespace

Var linear_attention(const Var& query_features, const Var& key_features, const Var& value,
                     bool causal) {
  return linear_attention(NoMap(), query_features, key_features, value, causal);
}

Var linear_attention(const FeatureMap& features, const Var& query, const Var& key, const Var& value,
                     bool causal, const Array& keep) {
  const Keys keys(features, key, value, keep);
  if (!causal) return ratio(matmul(features.of_queries(query), keys.state(0, keys.count())));
  if (query.shape()[2] == 0) return slice(value, 2, 0, 0);
  return ratio(causal_sums(features, query, keys));
}

Var linear_attention_step(const Var& query_features, const Var& key_features, const Var& value,
                          LinearAttentionState& state) {
  const Var read = state_of(key_features, with_one(value));
  state.sums = state.sums.is_null() ? read : state.sums + read;
  return ratio(matmul(query_features, state.sums));
}

// x + e^0 above 0, 0 + e^x below.
Var EluFeatures::of_keys(const Var& key) const {
  return relu(key) + exp(minimum(key, Var(Array::zeros({}, key.dtype()))));
}

}  // namespace attune
