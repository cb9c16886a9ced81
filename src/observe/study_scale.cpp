#include "attune/observe/study_scale.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/ops/softmax.h"

namespace attune {

SoftmaxAtScale softmax_at_scale(const Array& scores) {
  if (scores.shape().rank() != 2 || scores.shape()[0] < 1 || scores.shape()[1] < 2) {
    throw ShapeError(fmt::format("softmax_at_scale: scores {}, expected [rows, keys] with 2 keys",
                                 to_string(scores.shape())));
  }
  const auto rows = static_cast<std::size_t>(scores.shape()[0]);
  const auto keys = static_cast<std::size_t>(scores.shape()[1]);
  const auto n = static_cast<double>(keys);
  const std::vector<double> s = scores.to_vector(), p = softmax(Var(scores)).value().to_vector();
  SoftmaxAtScale sum;
  double variance = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double first = 0, second = 0, entropy = 0, square = 0, cube = 0, largest = 0;
    for (std::size_t j = r * keys; j < (r + 1) * keys; ++j) {
      first += s[j] / n;
      entropy -= p[j] > 0 ? p[j] * std::log(p[j]) : 0;
      square += p[j] * p[j];
      cube += p[j] * p[j] * p[j];
      largest = std::max(largest, p[j]);
    }
    for (std::size_t j = r * keys; j < (r + 1) * keys; ++j)
      second += (s[j] - first) * (s[j] - first);
    variance += second / (n - 1);
    sum.entropy_norm += entropy / std::log(n);
    sum.max_probability += largest;
    sum.jacobian += std::sqrt(std::max(0.0, square - 2 * cube + square * square));
  }
  const auto count = static_cast<double>(rows);
  return {std::sqrt(variance / count), sum.entropy_norm / count, sum.max_probability / count,
          sum.jacobian / count};
}

Array normal_scores(std::int64_t rows, std::int64_t keys, double score_std,
                    const RandomStream& stream) {
  Array scores = Array::uninitialized({rows, keys}, DType::float64);
  std::uint64_t index = 0;
  for (double& score : scores.mutable_data<double>()) score = score_std * stream.normal(index++);
  return scores;
}

Array product_scores(std::int64_t rows, std::int64_t keys, std::int64_t head_dim, double scale,
                     const RandomStream& stream) {
  Array scores = Array::uninitialized({rows, keys}, DType::float64);
  const auto dim = static_cast<std::uint64_t>(head_dim);
  std::uint64_t next = 0;
  std::vector<double> query(dim);
  const auto values = scores.mutable_data<double>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (double& value : query) value = stream.normal(next++);
    for (std::int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (const double value : query) dot += value * stream.normal(next++);
      values[static_cast<std::size_t>(r * keys + j)] = scale * dot;
    }
  }
  return scores;
}

}  // namespace attune
