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

// All tokens, a part at a time, so that what a part works with stays in the caches.
Var causal_sums(const Var& query, const Var& key, const Var& value, Var state) {
  const std::int64_t time = query.shape()[2];
  if (time <= kPart) return causal_part(query, key, value, state).sums;
  std::vector<Var> sums;
  for (std::int64_t begin = 0; begin < time; begin += kPart) {
    const std::int64_t end = std::min(begin + kPart, time);
    const auto part_of = [&](const Var& x) { return slice(x, 2, begin, end); };
    Part part = causal_part(part_of(query), part_of(key), part_of(value), state);
    sums.push_back(part.sums);
    state = part.state;
  }
  return concat(sums, 2);
}

}  // namespace

Var linear_attention(const Var& query_features, const Var& key_features, const Var& value,
                     bool causal) {
  const std::int64_t query = query_features.shape()[2], key = key_features.shape()[2];
  const Var with = with_one(value);
  if (!causal) return ratio(matmul(query_features, state_of(key_features, with)));
  if (query == 0) return slice(value, 2, 0, 0);
  const std::int64_t earlier = key - query;
  const Var before = earlier == 0
                         ? Var()
                         : state_of(slice(key_features, 2, 0, earlier), slice(with, 2, 0, earlier));
  return ratio(causal_sums(query_features, slice(key_features, 2, earlier, key),
                           slice(with, 2, earlier, key), before));
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
