#include "kernels/reduce_gradients.h"

namespace attune::kernels {

template <std::floating_point T>
void add_run(const T* x, T* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

template <std::floating_point T>
double sum_of_squares_run(const T* x, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum;
}

template void add_run(const float*, float*, std::int64_t);
template void add_run(const double*, double*, std::int64_t);
template double sum_of_squares_run(const float*, std::int64_t);
template double sum_of_squares_run(const double*, std::int64_t);

}  // namespace attune::kernels
