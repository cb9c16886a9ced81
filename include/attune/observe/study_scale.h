#pragma once

#include <cstdint>

#include "attune/array/array.h"
#include "attune/core/random.h"

namespace attune {

// What a softmax over rows of scores does, in means over rows. J = diag(p) - p p^T is its Jacobian,
// what gradients pass on their way to the scores; |J|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2
// (Frobenius). Small scores leave 1/sqrt(n) of it, one-hot rows nothing, and between them it has a
// maximum.
struct SoftmaxAtScale {
  double score_std = 0;     // root of the mean variance within a row, without bias
  double entropy_norm = 0;  // H / ln n
  double max_probability = 0;
  double jacobian = 0;
};
// scores: [rows, keys], keys >= 2. Throws ShapeError otherwise.
[[nodiscard]] SoftmaxAtScale softmax_at_scale(const Array& scores);

// Independent N(0, score_std^2) scores: [rows, keys], float64.
[[nodiscard]] Array normal_scores(std::int64_t rows, std::int64_t keys, double score_std,
                                  const RandomStream& stream);
// scale * q k^T with N(0, 1) queries, one a row, each with `keys` keys of its own: [rows, keys],
// float64. Their deviation is scale * sqrt(head_dim).
[[nodiscard]] Array product_scores(std::int64_t rows, std::int64_t keys, std::int64_t head_dim,
                                   double scale, const RandomStream& stream);

}  // namespace attune
