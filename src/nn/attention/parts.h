#pragma once

#include <cstdint>

#include "attune/nn/pass.h"
#include "attune/ops/attention.h"

// What several kinds of attention are made of.
namespace attune::attention_parts {

struct Mixture {
  Var mixed;    // [batch, query, heads * value_dim]
  Var weights;  // [batch, heads, query, key]
};
// Weights and mixture of scores [batch, heads, query, key] that are no products of queries and
// keys. They enter the textbook composition as the bias of products that are 0, and so meet the
// same softmax, mask, statistics and selection as all others.
// value: [batch, key, heads * value_dim]
[[nodiscard]] Mixture mix(const Var& scores, const Var& value, const AttentionOptions& options);

// x: [batch, key, ...] with 0 in the rows of keys that the mask keeps for no query: what stands
// there may be NaN, and a map of it would carry that into the map's gradient.
[[nodiscard]] Var select_kept(const Var& x, const Mask& mask, std::int64_t query);

// What the pass asks of attention weights beside the mask: statistics of this layer.
[[nodiscard]] AttentionOptions options_of(const Pass& pass, std::int64_t heads, int layer);

// Throws ShapeError "<layer>: <what> [2, 3], expected rank 3" unless x has this rank.
void expect_rank(const char* layer, const char* what, const Var& x, int rank);
// Throws ShapeError "<layer>: <what> [2, 3, 4], expected [batch, time, 5]" for another shape.
void expect_width(const char* layer, const char* what, const Var& x, std::int64_t width);

}  // namespace attune::attention_parts
