#pragma once

#include <cmath>
#include <functional>
#include <utility>

#include "attune/autodiff/tape.h"

// A handful of operations on equal shapes, written as plain loops: the tests of the tape need
// operations, not those of src/ops.
namespace attune::sample {

template <class F>
Array map(const Array& x, F f) {
  Array y = Array::uninitialized(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const auto from = x.data<T>();
    const auto to = y.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = f(from[i]);
  });
  return y;
}

template <class F>
Array zip(const Array& a, const Array& b, F f) {
  Array y = Array::uninitialized(a.shape(), a.dtype());
  dispatch(a.dtype(), [&]<class T>() {
    const auto left = a.data<T>();
    const auto right = b.data<T>();
    const auto to = y.mutable_data<T>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = f(left[i], right[i]);
  });
  return y;
}

inline Array product(const Array& a, const Array& b) { return zip(a, b, std::multiplies<>()); }

inline Var add(const Var& a, const Var& b) {
  return record("add", {a, b}, zip(a.value(), b.value(), std::plus<>()),
                [](const Array& dy, InputGradients& dx) {
                  dx.add(0, dy);
                  dx.add(1, dy);
                });
}

inline Var subtract(const Var& a, const Var& b) {
  return record("subtract", {a, b}, zip(a.value(), b.value(), std::minus<>()),
                [](const Array& dy, InputGradients& dx) {
                  dx.add(0, dy);
                  dx.add(1, map(dy, std::negate<>()));
                });
}

inline Var multiply(const Var& a, const Var& b) {
  return record("multiply", {a, b}, product(a.value(), b.value()),
                [x = a.value(), y = b.value()](const Array& dy, InputGradients& dx) {
                  if (dx.needs(0)) dx.add(0, product(dy, y));
                  if (dx.needs(1)) dx.add(1, product(dy, x));
                });
}

inline Var exp(const Var& x) {
  const Array y = map(x.value(), [](auto value) { return std::exp(value); });
  return record("exp", {x}, y,
                [y](const Array& dy, InputGradients& dx) { dx.add(0, product(dy, y)); });
}

inline Var sum(const Var& x) {
  double sum = 0;
  for (const double value : x.value().to_vector()) sum += value;
  return record("sum", {x}, Array::scalar(sum, x.dtype()),
                [shape = x.shape()](const Array& dy, InputGradients& dx) {
                  dx.add(0, Array::full(shape, dy.item(), dy.dtype()));
                });
}

// x: [2] -> its two elements, as two outputs of one operation
inline std::pair<Var, Var> split_pair(const Var& x) {
  const Array outputs[] = {Array::scalar(x.value().at({0}), x.dtype()),
                           Array::scalar(x.value().at({1}), x.dtype())};
  const Var* inputs[] = {&x};
  Var recorded[2];
  record_many("split_pair", inputs, outputs, recorded,
              [dtype = x.dtype()](std::span<const Array> dy, InputGradients& dx) {
                const auto item = [](const Array& g) { return g.is_null() ? 0 : g.item(); };
                const double values[] = {item(dy[0]), item(dy[1])};
                dx.add(0, Array::from({2}, values, dtype));
              });
  return {recorded[0], recorded[1]};
}

}  // namespace attune::sample
