#include "ops/attention_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "attune/core/error.h"

namespace attune {
namespace {

using kernels::AttentionExtents;

void check_operands(const char* operation, const AttentionOperand& query,
                    const AttentionOperand& key, const AttentionOperand& value) {
  const Shape &q = query.shape, &k = key.shape, &v = value.shape;
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3 || q[0] != k[0] || k[0] != v[0] ||
      k[1] != v[1]) {
    throw ShapeError(fmt::format(
        "{}: query {}, key {} and value {} do not fit, expected [batch, query, heads * head_dim], "
        "[batch, key, kv_heads * head_dim] and [batch, key, kv_heads * value_dim]",
        operation, to_string(q), to_string(k), to_string(v)));
  }
  if (query.dtype != key.dtype || key.dtype != value.dtype) {
    throw ShapeError(fmt::format("{}: query is {}, key {}, value {}, expected one dtype", operation,
                                 to_string(query.dtype), to_string(key.dtype),
                                 to_string(value.dtype)));
  }
}

AttentionExtents extents_of(const char* operation, const Shape& q, const Shape& k, const Shape& v,
                            const AttentionOptions& options) {
  const std::int64_t heads = options.heads;
  const std::int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    throw ShapeError(
        fmt::format("{}: {} heads do not share {} key heads evenly", operation, heads, kv_heads));
  }
  if (q[2] % heads != 0 || v[2] % kv_heads != 0 || q[2] / heads * kv_heads != k[2]) {
    throw ShapeError(
        fmt::format("{}: query {}, key {} and value {} do not split into {} heads and {} key heads",
                    operation, to_string(q), to_string(k), to_string(v), heads, kv_heads));
  }
  return {.batch = q[0],
          .heads = heads,
          .kv_heads = kv_heads,
          .query = q[1],
          .key = k[1],
          .head_dim = q[2] / heads,
          .value_dim = v[2] / kv_heads};
}

void check_bias(const char* operation, const AttentionOperand& query, const Var& bias,
                const AttentionExtents& extents) {
  const Shape& b = bias.shape();
  if (b.rank() != 4 || (b[0] != 1 && b[0] != extents.batch) || b[1] != extents.heads ||
      b[2] != extents.query || b[3] != extents.key) {
    throw ShapeError(fmt::format(
        "{}: bias {} does not fit scores [batch {}, heads {}, query {}, key {}]", operation,
        to_string(b), extents.batch, extents.heads, extents.query, extents.key));
  }
  if (bias.dtype() != query.dtype) {
    throw ShapeError(fmt::format("{}: bias is {}, query {}, expected one dtype", operation,
                                 to_string(bias.dtype()), to_string(query.dtype)));
  }
}

void check_positions(const char* operation, const char* what,
                     std::span<const std::int32_t> positions, std::int64_t batch,
                     std::int64_t time) {
  const auto count = static_cast<std::int64_t>(positions.size());
  if (count == time || count == batch * time) return;
  throw ShapeError(
      fmt::format("{}: {} positions of {}, expected [1 or batch {}, {}] for the distance bias",
                  operation, count, what, batch, time));
}

// Every pair of positions must have its column.
void check_distances(const char* operation, DType dtype, const DistanceBias& bias,
                     const AttentionExtents& extents) {
  const Shape& table = bias.table.shape();
  if (table.rank() != 2 || table[0] != extents.heads || bias.table.dtype() != dtype) {
    throw ShapeError(fmt::format(
        "{}: the distance bias is {} {}, expected {} [heads {}, distances]", operation,
        to_string(bias.table.dtype()), to_string(table), to_string(dtype), extents.heads));
  }
  check_positions(operation, "queries", bias.query_positions, extents.batch, extents.query);
  check_positions(operation, "keys", bias.key_positions, extents.batch, extents.key);
  if (bias.query_positions.empty() || bias.key_positions.empty()) return;
  const auto [query_low, query_high] = std::ranges::minmax(bias.query_positions);
  const auto [key_low, key_high] = std::ranges::minmax(bias.key_positions);
  const std::int64_t low = std::int64_t{key_low} - query_high;
  const std::int64_t high = std::int64_t{key_high} - query_low;
  if (low < bias.first || high >= bias.first + table[1]) {
    throw ShapeError(
        fmt::format("{}: distances {} to {} are not within the distance bias's {} to {}", operation,
                    low, high, bias.first, bias.first + table[1] - 1));
  }
}

void check_head_parameter(const char* operation, const char* what, DType dtype, const Var& x,
                          const Shape& expected) {
  if (x.is_null() || (x.shape() == expected && x.dtype() == dtype)) return;
  throw ShapeError(fmt::format("{}: the {} is {} {}, expected {} {}", operation, what,
                               to_string(x.dtype()), to_string(x.shape()), to_string(dtype),
                               to_string(expected)));
}

}  // namespace

AttentionExtents check_attention(const char* operation, const AttentionOperand& query,
                                 const AttentionOperand& key, const AttentionOperand& value,
                                 const Var& bias, const AttentionOptions& options) {
  check_operands(operation, query, key, value);
  const AttentionExtents extents =
      extents_of(operation, query.shape, key.shape, value.shape, options);
  if (!bias.is_null()) check_bias(operation, query, bias, extents);
  if (!options.distance_bias.table.is_null())
    check_distances(operation, query.dtype, options.distance_bias, extents);
  const std::int64_t heads = extents.heads;
  check_head_parameter(operation, "sink", query.dtype, options.sink, {heads});
  check_head_parameter(operation, "temperature", query.dtype, options.temperature, {heads});
  check_head_parameter(operation, "mix of scores", query.dtype, options.mix_scores, {heads, heads});
  check_head_parameter(operation, "mix of weights", query.dtype, options.mix_weights,
                       {heads, heads});
  if (!options.sink.is_null() && options.normaliser != Normaliser::softmax)
    throw ValueError(fmt::format("{}: a sink belongs to a softmax", operation));
  if (options.mask != nullptr)
    options.mask->check(extents.batch, extents.heads, extents.query, extents.key);
  if (!(options.dropout.rate >= 0 && options.dropout.rate <= 1)) {
    throw ValueError(
        fmt::format("{}: dropout rate {} is outside [0, 1]", operation, options.dropout.rate));
  }
  if (!std::isfinite(options.scale) || !(options.softcap >= 0) || std::isinf(options.softcap)) {
    throw ValueError(fmt::format(
        "{}: scale {} and softcap {}, expected finite numbers, the softcap not negative", operation,
        options.scale, options.softcap));
  }
  if (!options.statistics.empty() &&
      static_cast<std::int64_t>(options.statistics.size()) != extents.heads) {
    throw ShapeError(fmt::format("{}: statistics for {} heads, expected {}", operation,
                                 options.statistics.size(), extents.heads));
  }
  return extents;
}

double attention_scale(const AttentionExtents& extents, const AttentionOptions& options) {
  if (options.scale != 0) return options.scale;
  return extents.head_dim == 0 ? 1.0 : 1 / std::sqrt(static_cast<double>(extents.head_dim));
}

}  // namespace attune
