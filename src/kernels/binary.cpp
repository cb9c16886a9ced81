#include "kernels/binary.h"

#include <cmath>

#include "kernels/broadcast.h"

namespace attune::kernels {
namespace {

template <class F>
Array map(const char* operation, const Array& a, const Array& b, F f) {
  const Shape shape = broadcast(operation, a.shape(), b.shape());
  return dispatch(a.dtype(), [&]<class T>() {
    return map_broadcast<T, 2>(shape, {&a, &b}, [f](T x, T y) { return static_cast<T>(f(x, y)); });
  });
}

template <class F>
Array map(const Array& x, F f) {
  return dispatch(x.dtype(), [&]<class T>() {
    Array result = Array::uninitialized(x.shape(), x.dtype());
    const T* from = x.data<T>().data();
    T* to = result.mutable_data<T>().data();
    const std::int64_t size = x.size();
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) to[i] = f(from[i]);
    return result;
  });
}

// Where neither comparison holds, one of the two is NaN: a, if it is a, otherwise b.
template <class T>
bool takes_larger_first(T a, T b) {
  return a >= b || a != a;
}
template <class T>
bool takes_smaller_first(T a, T b) {
  return a <= b || a != a;
}

}  // namespace

Array add(const Array& a, const Array& b) {
  return map("add", a, b, [](auto x, auto y) { return x + y; });
}
Array subtract(const Array& a, const Array& b) {
  return map("subtract", a, b, [](auto x, auto y) { return x - y; });
}
Array multiply(const Array& a, const Array& b) {
  return map("multiply", a, b, [](auto x, auto y) { return x * y; });
}
Array divide(const Array& a, const Array& b) {
  return map("divide", a, b, [](auto x, auto y) { return x / y; });
}
Array maximum(const Array& a, const Array& b) {
  return map("maximum", a, b, [](auto x, auto y) { return takes_larger_first(x, y) ? x : y; });
}
Array minimum(const Array& a, const Array& b) {
  return map("minimum", a, b, [](auto x, auto y) { return takes_smaller_first(x, y) ? x : y; });
}
Array maximum_takes_first(const Array& a, const Array& b) {
  return map("maximum", a, b, [](auto x, auto y) { return takes_larger_first(x, y) ? 1 : 0; });
}
Array minimum_takes_first(const Array& a, const Array& b) {
  return map("minimum", a, b, [](auto x, auto y) { return takes_smaller_first(x, y) ? 1 : 0; });
}

Array add(const Array& x, double term) {
  return map(x, [term](auto value) { return value + static_cast<decltype(value)>(term); });
}
Array multiply(const Array& x, double factor) {
  return map(x, [factor](auto value) { return value * static_cast<decltype(value)>(factor); });
}

// The exponents of variances and norms do without the slow general power.
Array power(const Array& x, double exponent) {
  if (exponent == 0) return Array::full(x.shape(), 1, x.dtype());
  if (exponent == 1) return x;
  if (exponent == 2) return map(x, [](auto value) { return value * value; });
  if (exponent == 0.5) return map(x, [](auto value) { return std::sqrt(value); });
  if (exponent == -0.5) return map(x, [](auto value) { return 1 / std::sqrt(value); });
  if (exponent == -1) return map(x, [](auto value) { return 1 / value; });
  return map(x, [exponent](auto value) {
    return std::pow(value, static_cast<decltype(value)>(exponent));
  });
}
Array power_backward(const Array& dy, const Array& x, double exponent) {
  if (exponent == 0) return Array::zeros(x.shape(), x.dtype());
  return chain(dy, multiply(power(x, exponent - 1), exponent));
}

Array chain(const Array& dy, const Array& slope) {
  return map("chain", dy, slope, [](auto d, auto s) { return d == 0 ? 0 : d * s; });
}
Array chain_divided(const Array& dy, const Array& divisor) {
  return map("chain", dy, divisor, [](auto d, auto s) { return d == 0 ? 0 : d / s; });
}

Array select(const Array& condition, const Array& a, const Array& b) {
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  return dispatch(a.dtype(), [&]<class T>() {
    return map_broadcast<T, 3>(shape, {&condition, &a, &b},
                               [](T c, T x, T y) { return c != 0 ? x : y; });
  });
}
Array keep_where(const Array& condition, const Array& dy) {
  return map("where", condition, dy, [](auto c, auto d) { return c != 0 ? d : 0; });
}
Array keep_where_not(const Array& condition, const Array& dy) {
  return map("where", condition, dy, [](auto c, auto d) { return c != 0 ? 0 : d; });
}

}  // namespace attune::kernels
