#include "kernels/unary.h"

#include <cmath>
#include <utility>

#include "kernels/reuse.h"
#include "kernels/simd_math.h"

namespace attune::kernels {
namespace {

// y = f(x)
template <class F>
Array map(Array x, F f) {
  return dispatch(x.dtype(), [&]<class T>() {
    const std::int64_t size = x.size();
    const T* from = x.data<T>().data();
    Array result = reuse(x);
    T* to = result.mutable_data<T>().data();
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) to[i] = f(from[i]);
    return result;
  });
}

// dx = f(dy, saved) where dy is not 0
template <class F>
Array map_gradient(const Array& dy, const Array& saved, F f) {
  return dispatch(dy.dtype(), [&]<class T>() {
    Array result = Array::uninitialized(dy.shape(), dy.dtype());
    const T* d = dy.data<T>().data();
    const T* s = saved.data<T>().data();
    T* dx = result.mutable_data<T>().data();
    const std::int64_t size = dy.size();
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) dx[i] = d[i] == 0 ? T{0} : f(d[i], s[i]);
    return result;
  });
}

// y = f_into(x, y, size), one of simd_math.h
template <class F>
Array map_whole(const Array& x, F f_into) {
  return dispatch(x.dtype(), [&]<class T>() {
    Array result = Array::uninitialized(x.shape(), x.dtype());
    f_into(x.data<T>().data(), result.mutable_data<T>().data(), x.size());
    return result;
  });
}

}  // namespace

Array exp(const Array& x) {
  return map_whole(x, [](const auto* from, auto* to, std::int64_t n) { exp_into(from, to, n); });
}
Array log(const Array& x) {
  return map_whole(x, [](const auto* from, auto* to, std::int64_t n) { log_into(from, to, n); });
}

Array sqrt(const Array& x) {
  return map(x, [](auto value) { return std::sqrt(value); });
}
Array sqrt_backward(const Array& dy, const Array& y) {
  return map_gradient(dy, y, [](auto d, auto root) { return d / (2 * root); });
}

Array square(const Array& x) {
  return map(x, [](auto value) { return value * value; });
}
Array square_backward(const Array& dy, const Array& x) {
  return map_gradient(dy, x, [](auto d, auto value) { return 2 * value * d; });
}

Array abs(const Array& x) {
  return map(x, [](auto value) { return std::abs(value); });
}
Array abs_backward(const Array& dy, const Array& x) {
  return map_gradient(dy, x, [](auto d, auto value) {
    return value > 0 ? d : value < 0 ? -d : value * 0;  // NaN stays NaN
  });
}

Array sin(const Array& x) {
  return map(x, [](auto value) { return std::sin(value); });
}
Array cos(const Array& x) {
  return map(x, [](auto value) { return std::cos(value); });
}

Array tanh(const Array& x) {
  return map_whole(x, [](const auto* from, auto* to, std::int64_t n) { tanh_into(from, to, n); });
}
Array tanh_backward(const Array& dy, const Array& y) {
  return map_gradient(dy, y, [](auto d, auto value) { return d * (1 - value) * (1 + value); });
}

Array sigmoid(const Array& x) {
  return map_whole(x,
                   [](const auto* from, auto* to, std::int64_t n) { sigmoid_into(from, to, n); });
}
Array sigmoid_backward(const Array& dy, const Array& y) {
  return map_gradient(dy, y, [](auto d, auto value) { return d * value * (1 - value); });
}

Array relu(Array x) {
  return map(std::move(x), [](auto value) { return value <= 0 ? 0 : value; });
}
Array relu_backward(const Array& dy, const Array& y) {
  return map_gradient(dy, y, [](auto d, auto value) { return value <= 0 ? 0 : d; });
}

namespace {

// One row: dx = f(dy, saved), and sum += dx unless it is null. dx may be saved. Two loops, for one
// of two widths of numbers runs at the speed of neither; the row stays in the cache between them.
template <std::floating_point T, class F>
void biased_row(const T* dy, const T* saved, std::int64_t n, T* dx, double* sum, F f) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) dx[i] = f(dy[i], saved[i]);
  if (sum == nullptr) return;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<double>(dx[i]);
}

template <class F>
BiasedGradients biased_gradients(const Array& dy, Array saved, bool with_bias, F f) {
  return dispatch(dy.dtype(), [&]<class T>() {
    const std::int64_t n = dy.shape().last();
    const std::int64_t rows = dy.shape().rows();
    const T* d = dy.data<T>().data();
    const T* s = saved.data<T>().data();
    BiasedGradients result{reuse(saved), {}};
    T* dx = result.dx.mutable_data<T>().data();
    if (!with_bias) {
      biased_row<T>(d, s, rows * n, dx, nullptr, f);
      return result;
    }
    Array sums = Array::zeros({n}, DType::float64);
    double* sum = sums.mutable_data<double>().data();
    for (std::int64_t at = 0; at < rows * n; at += n)
      biased_row(d + at, s + at, n, dx + at, sum, f);
    result.dbias = sums.cast(dy.dtype());
    return result;
  });
}

}  // namespace

BiasedGradients biased_backward(const Array& dy, Array slope, bool with_bias) {
  return biased_gradients(dy, std::move(slope), with_bias,
                          [](auto d, auto s) { return d == 0 ? 0 : d * s; });
}
BiasedGradients biased_relu_backward(const Array& dy, Array y, bool with_bias) {
  return biased_gradients(dy, std::move(y), with_bias,
                          [](auto d, auto value) { return value <= 0 ? 0 : d; });
}

}  // namespace attune::kernels
