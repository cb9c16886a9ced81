#include "kernels/orthonormal.h"

#include "attune/array/xtensor.h"  // first: see there

#include <xtensor-blas/xlinalg.hpp>

namespace attune::kernels {

Array orthonormal_columns(const Array& x) {
  const xt::xtensor<double, 2> matrix = view<double>(x);
  const auto [q, r] = xt::linalg::qr(matrix);
  const std::int64_t rows = x.shape()[0];
  const std::int64_t columns = x.shape()[1];
  Array result = Array::uninitialized({rows, columns}, DType::float64);
  double* element = result.mutable_data<double>().data();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) *element++ = r(j, j) < 0 ? -q(i, j) : q(i, j);
  }
  return result;
}

}  // namespace attune::kernels
