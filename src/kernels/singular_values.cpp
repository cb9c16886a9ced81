#include "kernels/singular_values.h"

#include "attune/array/xtensor.h"  // first: see there

#include <xtensor-blas/xlinalg.hpp>

namespace attune::kernels {

std::vector<double> singular_values(const Array& x) {
  const xt::xtensor<double, 2> matrix = view<double>(x);
  const auto [u, s, vt] = xt::linalg::svd(matrix, false, false);
  return {s.begin(), s.end()};
}

}  // namespace attune::kernels
