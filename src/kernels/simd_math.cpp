#include "kernels/simd_math.h"

#include "kernels/simd_batch.h"

namespace attune::kernels {

template <std::floating_point T>
void exp_into(const T* x, T* y, std::int64_t n) {
  map_into(x, y, n, [](const Batch<T>& v) { return batch_exp(v); });
}

template <std::floating_point T>
void log_into(const T* x, T* y, std::int64_t n) {
  map_into(x, y, n, [](const Batch<T>& v) { return xsimd::log(v); });
}

template <std::floating_point T>
void tanh_into(const T* x, T* y, std::int64_t n) {
  map_into(x, y, n, [](const Batch<T>& v) { return xsimd::tanh(v); });
}

template <std::floating_point T>
void erf_into(const T* x, T* y, std::int64_t n) {
  map_into(x, y, n, [](const Batch<T>& v) { return batch_erf(v); });
}

// With e = e^-|x|, which cannot overflow: 1 / (1 + e) for x >= 0, else e / (1 + e).
template <std::floating_point T>
void sigmoid_into(const T* x, T* y, std::int64_t n) {
  map_into(x, y, n, [](const Batch<T>& v) {
    const Batch<T> one(T(1));
    const Batch<T> e = batch_exp(-xsimd::abs(v));
    return xsimd::select(v < Batch<T>(T(0)), e, one) / (one + e);
  });
}

template void exp_into(const float*, float*, std::int64_t);
template void exp_into(const double*, double*, std::int64_t);
template void log_into(const float*, float*, std::int64_t);
template void log_into(const double*, double*, std::int64_t);
template void tanh_into(const float*, float*, std::int64_t);
template void tanh_into(const double*, double*, std::int64_t);
template void erf_into(const float*, float*, std::int64_t);
template void erf_into(const double*, double*, std::int64_t);
template void sigmoid_into(const float*, float*, std::int64_t);
template void sigmoid_into(const double*, double*, std::int64_t);

}  // namespace attune::kernels
