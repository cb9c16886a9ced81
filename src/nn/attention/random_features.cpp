#include "attune/nn/attention/random_features.h"

#include <algorithm>
#include <cmath>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/unary.h"
#include "kernels/orthonormal.h"
#include "nn/attention/kinds.h"

namespace attune {
namespace {

// Rows that are orthogonal in groups of `width` and as long as normal vectors. A group takes two
// matrices of normal numbers of the stream: directions come from the first, lengths from the
// second.
Array orthogonal_directions(std::int64_t features, std::int64_t width, const RandomStream& stream) {
  Array rows = Array::uninitialized({features, width}, DType::float64);
  double* row = rows.mutable_data<double>().data();
  std::uint64_t index = 0;
  Array basis;
  for (std::int64_t r = 0; r < features; ++r, row += width) {
    if (r % width == 0) {
      index = static_cast<std::uint64_t>(2 * r * width);
      Array normal = Array::uninitialized({width, width}, DType::float64);
      for (double& value : normal.mutable_data<double>()) value = stream.normal(index++);
      basis = kernels::orthonormal_columns(normal);
    }
    double squares = 0;
    for (std::int64_t c = 0; c < width; ++c) squares += std::pow(stream.normal(index++), 2);
    for (std::int64_t c = 0; c < width; ++c) row[c] = std::sqrt(squares) * basis.at({r % width, c});
  }
  return rows;
}

}  // namespace

RandomFeatures::RandomFeatures(std::int64_t features, std::int64_t head_dim, double scale,
                               DType dtype, const RandomStream& stream)
    : root_scale_(std::sqrt(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim)))),
      norm_(1 / std::sqrt(static_cast<double>(features))) {
  if (features < 1 || head_dim < 1) {
    throw ConfigError("random features: " + std::to_string(features) + " of heads of width " +
                      std::to_string(head_dim) + ", expected 1 or more");
  }
  // Directions are no parameters, whose number has a limit of its own.
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22;
  if (head_dim > kMostNumbers / std::max(features, head_dim)) {
    throw ConfigError("random features: " + std::to_string(features) + " of heads of width " +
                      std::to_string(head_dim) + " are too many, expected at most " +
                      std::to_string(kMostNumbers) + " numbers");
  }
  directions_ = orthogonal_directions(features, head_dim, stream).cast(dtype);
}

// w_r . x - |x|^2 / 2
Var RandomFeatures::exponents(const Var& x) const {
  const Var scaled = x * root_scale_;
  return linear(scaled, Var(directions_)) - sum(square(scaled), -1, true) * 0.5;
}

Var RandomFeatures::of_queries(const Var& query) const {
  const Var e = exponents(query);
  return exp(e - max(e.detached(), -1, true)) * norm_;
}

Var RandomFeatures::of_keys(const Var& key) const { return exp(exponents(key)) * norm_; }

std::unique_ptr<SelfAttention> attention_kind::make_random_feature(
    const Scope& scope, const AttentionConfig& config, const PositionalEncoding& encoding,
    const InitScheme& init, int layer) {
  auto features = std::make_unique<RandomFeatures>(config.features, config.head_dim, config.scale,
                                                   scope.dtype(), scope.stream("features"));
  return std::make_unique<LinearAttention>("random-feature", scope, config, std::move(features),
                                           encoding, init, layer);
}

}  // namespace attune
