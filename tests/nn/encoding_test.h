#pragma once

#include <memory>
#include <string_view>

#include "attune/nn/positional_encoding.h"
#include "attune/ops/attention.h"
#include "nn/layer_test.h"

// What the tests of single positional encodings share.
namespace attune {

[[nodiscard]] inline PositionalConfig config_of(std::int64_t model, std::int64_t heads,
                                                std::int64_t block_size = 8) {
  return {.model = model, .heads = heads, .head_dim = model / heads, .block_size = block_size};
}

[[nodiscard]] inline std::unique_ptr<PositionalEncoding> make(std::string_view name, Bench& bench,
                                                              const PositionalConfig& config) {
  return make_positional_encoding(name, bench.root / "position", config, bench.init);
}

[[nodiscard]] inline PositionContext context_of(const PositionalEncoding& encoding,
                                                const Positions& query, const Positions& key,
                                                const Pass& pass = {}) {
  PositionContext context;
  context.query = query;
  context.new_key = key;
  encoding.prepare(context, pass);
  return context;
}

[[nodiscard]] inline Positions at(std::int32_t position) { return Positions::range(position, 1); }

[[nodiscard]] inline Array row(std::initializer_list<double> values) {
  return Array::from({1, 1, static_cast<std::int64_t>(values.size())}, values, DType::float64);
}

// What is added to the scores: [1, heads, query, key].
[[nodiscard]] inline Array bias_of(const PositionContext& context) {
  const DistanceBias bias{context.distance_table, context.first_distance, context.query.values,
                          context.distance_keys.values};
  return expand(bias, context.query.time, context.distance_keys.time).value();
}

}  // namespace attune
