#include "kernels/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/simd_batch.h"

namespace attune::kernels {
namespace {

template <std::floating_point T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// What is subtracted before exp: the maximum, or 0 for a row of -inf, where x - m would be NaN.
template <std::floating_point T>
T shift_of(T maximum) {
  return maximum == kMinusInfinity<T> ? T(0) : maximum;
}

template <std::floating_point T>
void scale_row(T* y, std::int64_t n, T factor) {
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    access.store(y + i, access.load(y + i, T(0)) * Batch<T>(factor));
  });
}

template <std::floating_point T>
void softmax_row(const T* x, T* y, std::int64_t n) {
  const Batch<T> shift(shift_of(max_over(x, n)));
  const T sum = sum_over<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> e = batch_exp(access.load(x + i, kMinusInfinity<T>) - shift);
    access.store(y + i, e);
    return e;
  });
  scale_row(y, n, sum == T(0) ? T(0) : T(1) / sum);
}

// keep_step is 0 where one number stands for the whole row.
template <std::floating_point T>
void masked_softmax_row(const T* x, const T* keep, std::int64_t keep_step, T* y, std::int64_t n) {
  const Batch<T> nothing(kMinusInfinity<T>);
  const Batch<T> zero(T(0));
  // y holds the kept scores first.
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> kept = keep_step == 0 ? Batch<T>(*keep) : access.load(keep + i, T(0));
    access.store(y + i,
                 xsimd::select(kept != zero, access.load(x + i, kMinusInfinity<T>), nothing));
  });
  softmax_row(y, y, n);
  if (n > 0 && !(y[0] == y[0])) {  // a kept NaN or +inf has spread over the row
    for (std::int64_t i = 0; i < n; ++i)
      if (keep[i * keep_step] == T(0)) y[i] = T(0);
  }
}

// Walks over the rows of `shape` and knows where the row of an array that broadcasts to it begins.
class BroadcastRows final {
 public:
  BroadcastRows(const Shape& shape, const Shape& operand) : shape_(shape) {
    std::int64_t stride = operand.last();
    for (int axis = 2; axis <= operand.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(shape.rank() - axis);
      strides_[at] = operand[-axis] == 1 ? 0 : stride;
      stride *= operand[-axis];
    }
  }
  [[nodiscard]] std::int64_t offset() const { return offset_; }
  void advance() {
    for (int axis = shape_.rank() - 2; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      offset_ += strides_[at];
      if (++index_[at] < shape_[axis]) return;
      offset_ -= strides_[at] * shape_[axis];
      index_[at] = 0;
    }
  }

 private:
  const Shape& shape_;
  std::array<std::int64_t, Shape::kMaxRank> strides_{};
  std::array<std::int64_t, Shape::kMaxRank> index_{};
  std::int64_t offset_ = 0;
};

}  // namespace

Array softmax(const Array& x) {
  Array y = Array::uninitialized(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    const std::int64_t n = x.shape().last();
    for (std::int64_t row = 0; row < x.shape().rows(); ++row)
      softmax_row(in + row * n, out + row * n, n);
  });
  return y;
}

Array masked_softmax(const Array& x, const Array& keep) {
  Array y = Array::uninitialized(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* kept = keep.data<T>().data();
    T* out = y.mutable_data<T>().data();
    const std::int64_t n = x.shape().last();
    const std::int64_t keep_step = keep.shape().last() == 1 ? 0 : 1;
    BroadcastRows rows(x.shape(), keep.shape());
    if (x.size() == 0) return;
    for (std::int64_t row = 0; row < x.shape().rows(); ++row, rows.advance())
      masked_softmax_row(in + row * n, kept + rows.offset(), keep_step, out + row * n, n);
  });
  return y;
}

Array softmax_backward(const Array& y, const Array& dy) {
  Array dx = Array::uninitialized(y.shape(), y.dtype());
  dispatch(y.dtype(), [&]<class T>() {
    const std::int64_t n = y.shape().last();
    const Batch<T> zero(T(0));
    const T* p = y.data<T>().data();
    const T* dp = dy.data<T>().data();
    T* out = dx.mutable_data<T>().data();
    for (std::int64_t row = 0; row < y.shape().rows(); ++row, p += n, dp += n, out += n) {
      const Batch<T> dot(sum_over<T>(n, [&](std::int64_t i, auto access) {
        const Batch<T> weight = access.load(p + i, T(0));
        return xsimd::select(weight != zero, weight * access.load(dp + i, T(0)), zero);
      }));
      for_each_batch<T>(n, [&](std::int64_t i, auto access) {
        const Batch<T> weight = access.load(p + i, T(0));
        const Batch<T> gradient = weight * (access.load(dp + i, T(0)) - dot);
        access.store(out + i, xsimd::select(weight != zero, gradient, zero));
      });
    }
  });
  return dx;
}

Array log_softmax(const Array& x) {
  Array y = Array::uninitialized(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const std::int64_t n = x.shape().last();
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    for (std::int64_t row = 0; row < x.shape().rows(); ++row, in += n, out += n) {
      const Batch<T> shift(shift_of(max_over(in, n)));
      const T sum = sum_over<T>(n, [&](std::int64_t i, auto access) {
        return batch_exp(access.load(in + i, kMinusInfinity<T>) - shift);
      });
      const Batch<T> log_sum(sum == T(0) ? T(0) : std::log(sum));
      for_each_batch<T>(n, [&](std::int64_t i, auto access) {
        access.store(out + i, (access.load(in + i, T(0)) - shift) - log_sum);
      });
    }
  });
  return y;
}

Array log_softmax_backward(const Array& y, const Array& dy) {
  Array dx = Array::uninitialized(y.shape(), y.dtype());
  dispatch(y.dtype(), [&]<class T>() {
    const std::int64_t n = y.shape().last();
    const T* log_p = y.data<T>().data();
    const T* dp = dy.data<T>().data();
    T* out = dx.mutable_data<T>().data();
    for (std::int64_t row = 0; row < y.shape().rows(); ++row, log_p += n, dp += n, out += n) {
      // e^y sums to 1, but to 0 in a row of -inf, and to NaN in one that holds NaN.
      const bool is_empty = sum_over<T>(n, [&](std::int64_t i, auto access) {
                              return batch_exp(access.load(log_p + i, kMinusInfinity<T>));
                            }) == T(0);
      const Batch<T> total(
          sum_over<T>(n, [&](std::int64_t i, auto access) { return access.load(dp + i, T(0)); }));
      if (is_empty) {
        std::fill_n(out, n, T(0));
        continue;
      }
      for_each_batch<T>(n, [&](std::int64_t i, auto access) {
        const Batch<T> p = batch_exp(access.load(log_p + i, kMinusInfinity<T>));
        access.store(out + i, access.load(dp + i, T(0)) - p * total);
      });
    }
  });
  return dx;
}

}  // namespace attune::kernels
