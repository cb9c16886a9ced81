#include "nn/orthogonal.h"

#include <algorithm>

#include "kernels/orthonormal.h"

namespace attune {

Array orthogonal_matrix(const Shape& shape, double gain, const RandomStream& stream) {
  const std::int64_t columns = shape.last();
  const std::int64_t rows = shape.rows();
  const bool is_wide = rows < columns;
  Array normal =
      Array::uninitialized({std::max(rows, columns), std::min(rows, columns)}, DType::float64);
  std::uint64_t index = 0;
  for (double& value : normal.mutable_data<double>()) value = stream.normal(index++);
  const Array basis = kernels::orthonormal_columns(normal);

  Array matrix = Array::uninitialized(shape, DType::float64);
  double* element = matrix.mutable_data<double>().data();
  const double* q = basis.data<double>().data();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      *element++ = gain * (is_wide ? q[c * rows + r] : q[r * columns + c]);
    }
  }
  return matrix;
}

}  // namespace attune
