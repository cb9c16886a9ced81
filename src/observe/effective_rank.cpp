#include "attune/observe/effective_rank.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "kernels/singular_values.h"

namespace attune {

double effective_rank(std::span<const double> matrix, std::int64_t rows, std::int64_t columns) {
  if (std::ssize(matrix) != rows * columns)
    throw ShapeError(fmt::format("effective_rank: {} numbers for a matrix [{}, {}]", matrix.size(),
                                 rows, columns));
  for (const double x : matrix)
    if (!std::isfinite(x)) throw ValueError(fmt::format("effective_rank: {} is not finite", x));
  if (matrix.empty()) return 0;
  const std::vector<double> values =
      kernels::singular_values(Array::from({rows, columns}, matrix, DType::float64));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  if (sum == 0) return 0;
  double entropy = 0;
  for (const double value : values)
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  return std::exp(entropy);
}

}  // namespace attune
