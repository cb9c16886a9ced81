#include "nn/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace attune {

// Modified Gram-Schmidt over the shorter side, run twice for orthogonality to rounding. It is the
// QR decomposition with a positive diagonal, so the result is uniformly (Haar) distributed without
// a correction of signs.
Array orthogonal_matrix(const Shape& shape, double gain, const RandomStream& stream) {
  const std::int64_t columns = shape.last();
  const std::int64_t rows = shape.rows();
  const std::int64_t count = std::min(rows, columns);
  const std::int64_t length = std::max(rows, columns);
  std::vector<double> basis(static_cast<std::size_t>(count * length));
  for (std::size_t i = 0; i < basis.size(); ++i) basis[i] = stream.normal(i);

  for (std::int64_t i = 0; i < count; ++i) {
    double* v = basis.data() + i * length;
    for (int sweep = 0; sweep < 2; ++sweep) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double* u = basis.data() + j * length;
        double dot = 0;
        for (std::int64_t k = 0; k < length; ++k) dot += u[k] * v[k];
        for (std::int64_t k = 0; k < length; ++k) v[k] -= dot * u[k];
      }
    }
    double square = 0;
    for (std::int64_t k = 0; k < length; ++k) square += v[k] * v[k];
    const double norm = std::sqrt(square);
    for (std::int64_t k = 0; k < length; ++k) v[k] /= norm;
  }

  Array matrix = Array::uninitialized(shape, DType::float64);
  const std::span<double> elements = matrix.mutable_data<double>();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t source = rows <= columns ? r * length + c : c * length + r;
      elements[static_cast<std::size_t>(r * columns + c)] =
          gain * basis[static_cast<std::size_t>(source)];
    }
  }
  return matrix;
}

}  // namespace attune
