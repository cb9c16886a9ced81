#include "kernels/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/binary.h"
#include "kernels/elementwise.h"
#include "kernels/simd_math.h"

namespace attune::kernels {
namespace {

// A shape as [outer, extent, inner] around an axis.
struct Around {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
};

Around around(const Shape& shape, std::size_t axis) {
  Around result;
  for (std::size_t i = 0; i < shape.extents().size(); ++i) {
    std::int64_t& part = i < axis ? result.outer : i == axis ? result.extent : result.inner;
    part *= shape.extents()[i];
  }
  return result;
}

Shape reduced(const Shape& shape, std::size_t axis) {
  return shape.with(static_cast<int>(axis), 1);
}

template <class T>
T larger(T a, T b) {
  return b > a || b != b ? b : a;  // a NaN in a loses no comparison
}

// In several maxima side by side: one alone would wait for itself.
template <class T>
T max_row(const T* x, std::int64_t size) {
  constexpr std::int64_t kLanes = 16;
  std::array<T, kLanes> lanes;
  lanes.fill(-std::numeric_limits<T>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = larger(lanes[lane], x[lane]);
    x += kLanes;
  }
  T result = -std::numeric_limits<T>::infinity();
  for (; i < size; ++i) result = larger(result, *x++);
  for (const T value : lanes) result = larger(result, value);
  return result;
}

// Infinite maxima would make x - m NaN.
Array finite_or_zero(const Array& x, bool keep_positive) {
  Array result = x.clone();
  dispatch(x.dtype(), [&]<class T>() {
    for (T& value : result.mutable_data<T>()) {
      if (std::isinf(value) && !(keep_positive && value > 0)) value = 0;
    }
  });
  return result;
}

// e^(x - y), y broadcast
Array exp_of_difference(const Array& x, const Array& y) {
  Array result = subtract(x, y);
  dispatch(x.dtype(), [&]<class T>() {
    T* values = result.mutable_data<T>().data();
    exp_into(values, values, result.size());
  });
  return result;
}

}  // namespace

Array sum(const Array& x, std::size_t axis, double factor) {
  const Around shape = around(x.shape(), axis);
  Array y = Array::uninitialized(reduced(x.shape(), axis), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    sum_middle(x.data<T>().data(), shape.outer, shape.extent, shape.inner,
               y.mutable_data<T>().data(), factor);
  });
  return y;
}

Array max(const Array& x, std::size_t axis) {
  const Around shape = around(x.shape(), axis);
  Array y =
      Array::full(reduced(x.shape(), axis), -std::numeric_limits<double>::infinity(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for (std::int64_t o = 0; o < shape.outer; ++o, to += shape.inner) {
      if (shape.inner == 1) {
        *to = max_row(from, shape.extent);
        from += shape.extent;
        continue;
      }
      for (std::int64_t e = 0; e < shape.extent; ++e, from += shape.inner) {
#pragma omp simd
        for (std::int64_t i = 0; i < shape.inner; ++i) to[i] = larger(to[i], from[i]);
      }
    }
  });
  return y;
}
Array max_backward(const Array& dy, const Array& x, const Array& y, std::size_t axis) {
  const Around shape = around(x.shape(), axis);
  Array dx = Array::zeros(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* gradient = dy.data<T>().data();
    const T* largest = y.data<T>().data();
    const T* values = x.data<T>().data();
    T* to = dx.mutable_data<T>().data();
    for (std::int64_t o = 0; o < shape.outer; ++o) {
      for (std::int64_t i = 0; i < shape.inner; ++i, ++gradient, ++largest) {
        for (std::int64_t e = 0; e < shape.extent; ++e) {
          const std::int64_t at = (o * shape.extent + e) * shape.inner + i;
          if (values[at] == *largest || std::isnan(values[at])) {
            to[at] = *gradient;
            break;
          }
        }
      }
    }
  });
  return dx;
}

Array cumsum(const Array& x, std::size_t axis, bool reverse) {
  const Around shape = around(x.shape(), axis);
  Array y = Array::uninitialized(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    constexpr std::int64_t kBlock = 256;
    std::array<double, kBlock> sums;
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for (std::int64_t o = 0; o < shape.outer; ++o) {
      for (std::int64_t begin = 0; begin < shape.inner; begin += kBlock) {
        const std::int64_t width = std::min(kBlock, shape.inner - begin);
        std::fill_n(sums.begin(), width, 0.0);
        for (std::int64_t step = 0; step < shape.extent; ++step) {
          const std::int64_t e = reverse ? shape.extent - 1 - step : step;
          const std::int64_t at = (o * shape.extent + e) * shape.inner + begin;
          for (std::int64_t i = 0; i < width; ++i) {
            double& sum = sums[static_cast<std::size_t>(i)];
            sum += static_cast<double>(from[at + i]);
            to[at + i] = static_cast<T>(sum);
          }
        }
      }
    }
  });
  return y;
}

Array logsumexp(const Array& x, std::size_t axis) {
  const Array m = finite_or_zero(max(x, axis), false);
  Array y = sum(exp_of_difference(x, m), axis, 1);
  dispatch(x.dtype(), [&]<class T>() {
    T* values = y.mutable_data<T>().data();
    log_into(values, values, y.size());
  });
  add_into(y, m);
  return y;
}
Array logsumexp_backward(const Array& dy, const Array& x, const Array& y) {
  return chain(dy, exp_of_difference(x, finite_or_zero(y, true)));
}

}  // namespace attune::kernels
