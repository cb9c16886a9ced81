#include "kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_batch.h"

namespace attune::kernels {
namespace {

// sum = a + b over a row; sum may be a.
template <std::floating_point T>
void add_rows(const T* a, const T* b, std::int64_t n, T* sum) {
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    access.store(sum + i, access.load(a + i, T(0)) + access.load(b + i, T(0)));
  });
}

// The rows of x, one below the other.
template <std::floating_point T>
class Rows final {
 public:
  explicit Rows(const Array& x) : data_(x.data<T>().data()), width_(x.shape().last()) {}
  const T* operator[](std::int64_t row) const { return data_ + row * width_; }

 private:
  const T* data_;
  std::int64_t width_;
};

// The rows of x + branch, each written into `sum` when it is asked for, which is once.
template <std::floating_point T>
class SumRows final {
 public:
  SumRows(const Array& x, const Array& branch, Array& sum)
      : x_(x), branch_(branch), sum_(sum.mutable_data<T>().data()), width_(x.shape().last()) {}
  const T* operator[](std::int64_t row) const {
    T* sum = sum_ + row * width_;
    add_rows(x_[row], branch_[row], width_, sum);
    return sum;
  }

 private:
  Rows<T> x_;
  Rows<T> branch_;
  T* sum_;
  std::int64_t width_;
};

Array or_full(const Array& parameter, std::int64_t n, double value, DType dtype) {
  return parameter.is_null() ? Array::full({n}, value, dtype) : parameter;
}

// Column sums over rows, in row order: up to kBlock rows in T, the blocks in double.
template <std::floating_point T>
class ColumnSums final {
 public:
  static constexpr std::int64_t kBlock = 32;

  explicit ColumnSums(std::int64_t columns)
      : block_(Array::zeros({columns}, dtype_of<T>)),
        total_(Array::zeros({columns}, DType::float64)) {}
  // Where the caller adds one row; then it calls next_row().
  [[nodiscard]] T* row() { return block_.mutable_data<T>().data(); }
  void next_row() {
    if (++rows_ % kBlock == 0) flush();
  }
  [[nodiscard]] Array finish() {
    flush();
    return total_.cast(dtype_of<T>);
  }

 private:
  void flush() {
    T* block = row();
    double* total = total_.mutable_data<double>().data();
    const std::int64_t n = total_.size();
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      total[i] += static_cast<double>(block[i]);
      block[i] = T(0);
    }
  }

  Array block_;
  Array total_;
  std::int64_t rows_ = 0;
};

template <std::floating_point T>
struct RowStatistics {
  T mean;
  T rstd;
};

// mean = x_0 + sum(x - x_0) / n: exact for a constant row, and a large mean loses no digits.
template <std::floating_point T>
RowStatistics<T> statistics_of(const T* x, std::int64_t n, T eps) {
  const T width = static_cast<T>(n);
  const Batch<T> first(x[0]);
  const T mean = x[0] + sum_over<T>(n, [&](std::int64_t i, auto access) {
                          return access.load(x + i, x[0]) - first;
                        }) / width;
  const Batch<T> center(mean);
  const T variance = sum_over<T>(n,
                                 [&](std::int64_t i, auto access) {
                                   const Batch<T> d = access.load(x + i, mean) - center;
                                   return d * d;
                                 }) /
                     width;
  return {mean, T(1) / std::sqrt(variance + eps)};
}

// Writes y and the statistics of each row of x.
template <std::floating_point T, class InputRows>
void layer_norm_rows(const InputRows& x, const Array& gain, const Array& shift, T eps,
                     LayerNorm& result) {
  const std::int64_t n = result.y.shape().last();
  const Array gains = or_full(gain, n, 1, dtype_of<T>);
  const Array shifts = or_full(shift, n, 0, dtype_of<T>);
  const T* g = gains.data<T>().data();
  const T* s = shifts.data<T>().data();
  T* out = result.y.mutable_data<T>().data();
  T* mean = result.mean.mutable_data<T>().data();
  T* rstd = result.rstd.mutable_data<T>().data();
  for (std::int64_t row = 0; row < result.mean.size(); ++row, out += n) {
    const T* in = x[row];
    const RowStatistics<T> row_statistics = statistics_of(in, n, eps);
    mean[row] = row_statistics.mean;
    rstd[row] = row_statistics.rstd;
    const Batch<T> center(mean[row]);
    const Batch<T> scale(rstd[row]);
    for_each_batch<T>(n, [&](std::int64_t i, auto access) {
      const Batch<T> h = (access.load(in + i, T(0)) - center) * scale;
      access.store(out + i, xsimd::fma(h, access.load(g + i, T(0)), access.load(s + i, T(0))));
    });
  }
}

LayerNorm uninitialized_layer_norm(const Array& x) {
  const Shape rows{x.shape().rows()};
  return {Array::uninitialized(x.shape(), x.dtype()), Array::uninitialized(rows, x.dtype()),
          Array::uninitialized(rows, x.dtype())};
}

}  // namespace

LayerNorm layer_norm(const Array& x, const Array& gain, const Array& shift, double eps) {
  LayerNorm result = uninitialized_layer_norm(x);
  dispatch(x.dtype(), [&]<class T>() {
    layer_norm_rows(Rows<T>(x), gain, shift, static_cast<T>(eps), result);
  });
  return result;
}

AddLayerNorm add_layer_norm(const Array& x, const Array& branch, const Array& gain,
                            const Array& shift, double eps) {
  AddLayerNorm result{Array::uninitialized(x.shape(), x.dtype()), uninitialized_layer_norm(x)};
  dispatch(x.dtype(), [&]<class T>() {
    layer_norm_rows(SumRows<T>(x, branch, result.sum), gain, shift, static_cast<T>(eps),
                    result.norm);
  });
  return result;
}

namespace {

// One row: writes dx and, if dgain is not null, adds to dgain and dshift.
template <std::floating_point T>
void layer_norm_backward_row(const T* x, const T* gain, T mean, T rstd, const T* dy, std::int64_t n,
                             T* dx, T* dgain, T* dshift) {
  const Batch<T> center(mean);
  const Batch<T> scale(rstd);
  Batch<T> sum_gh(T(0));
  const T sum_g = sum_over<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> upstream = access.load(dy + i, T(0));
    const Batch<T> h = (access.load(x + i, mean) - center) * scale;
    const Batch<T> g = upstream * access.load(gain + i, T(0));
    if (dgain != nullptr) {
      access.store(dgain + i, xsimd::fma(upstream, h, access.load(dgain + i, T(0))));
      access.store(dshift + i, upstream + access.load(dshift + i, T(0)));
    }
    sum_gh = xsimd::fma(g, h, sum_gh);
    return g;
  });
  const T width = static_cast<T>(n);
  const Batch<T> mean_g(sum_g / width);
  const Batch<T> mean_gh(lane_sum(sum_gh) / width);
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> h = (access.load(x + i, mean) - center) * scale;
    const Batch<T> g = access.load(dy + i, T(0)) * access.load(gain + i, T(0));
    access.store(dx + i, scale * ((g - mean_g) - h * mean_gh));
  });
}

}  // namespace

LayerNormGradients layer_norm_backward(const Array& x, const Array& gain, const Array& mean,
                                       const Array& rstd, const Array& dy, bool with_parameters,
                                       const Array& beside) {
  const std::int64_t n = x.shape().last();
  LayerNormGradients result{Array::uninitialized(x.shape(), x.dtype()), {}, {}};
  const Array gains = or_full(gain, n, 1, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* upstream = dy.data<T>().data();
    const T* others = beside.is_null() ? nullptr : beside.data<T>().data();
    T* out = result.dx.mutable_data<T>().data();
    ColumnSums<T> dgain(with_parameters ? n : 0);
    ColumnSums<T> dshift(with_parameters ? n : 0);
    T* dgain_row = with_parameters ? dgain.row() : nullptr;
    T* dshift_row = with_parameters ? dshift.row() : nullptr;
    const T* gains_row = gains.data<T>().data();
    const T* means = mean.data<T>().data();
    const T* rstds = rstd.data<T>().data();
    for (std::int64_t row = 0; row < x.shape().rows(); ++row) {
      layer_norm_backward_row(in + row * n, gains_row, means[row], rstds[row], upstream + row * n,
                              n, out + row * n, dgain_row, dshift_row);
      if (others != nullptr) add_rows(out + row * n, others + row * n, n, out + row * n);
      dgain.next_row();
      dshift.next_row();
    }
    if (!with_parameters) return;
    result.dgain = dgain.finish();
    result.dshift = dshift.finish();
  });
  return result;
}

namespace {

template <std::floating_point T, class InputRows>
void rms_norm_rows(const InputRows& x, const Array& gain, T eps, RmsNorm& result) {
  const std::int64_t n = result.y.shape().last();
  const Array gains = or_full(gain, n, 1, dtype_of<T>);
  const T* g = gains.data<T>().data();
  T* out = result.y.mutable_data<T>().data();
  T* rstd = result.rstd.mutable_data<T>().data();
  for (std::int64_t row = 0; row < result.rstd.size(); ++row, out += n) {
    const T* in = x[row];
    const T sum = sum_over<T>(n, [&](std::int64_t i, auto access) {
      const Batch<T> v = access.load(in + i, T(0));
      return v * v;
    });
    rstd[row] = T(1) / std::sqrt(sum / static_cast<T>(n) + eps);
    const Batch<T> scale(rstd[row]);
    for_each_batch<T>(n, [&](std::int64_t i, auto access) {
      access.store(out + i, access.load(in + i, T(0)) * scale * access.load(g + i, T(0)));
    });
  }
}

RmsNorm uninitialized_rms_norm(const Array& x) {
  return {Array::uninitialized(x.shape(), x.dtype()),
          Array::uninitialized({x.shape().rows()}, x.dtype())};
}

}  // namespace

RmsNorm rms_norm(const Array& x, const Array& gain, double eps) {
  RmsNorm result = uninitialized_rms_norm(x);
  dispatch(x.dtype(),
           [&]<class T>() { rms_norm_rows(Rows<T>(x), gain, static_cast<T>(eps), result); });
  return result;
}

AddRmsNorm add_rms_norm(const Array& x, const Array& branch, const Array& gain, double eps) {
  AddRmsNorm result{Array::uninitialized(x.shape(), x.dtype()), uninitialized_rms_norm(x)};
  dispatch(x.dtype(), [&]<class T>() {
    rms_norm_rows(SumRows<T>(x, branch, result.sum), gain, static_cast<T>(eps), result.norm);
  });
  return result;
}

namespace {

template <std::floating_point T>
void rms_norm_backward_row(const T* x, const T* gain, T rstd, const T* dy, std::int64_t n, T* dx,
                           T* dgain) {
  const Batch<T> scale(rstd);
  const T sum_gh = sum_over<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> dy_h = access.load(dy + i, T(0)) * (access.load(x + i, T(0)) * scale);
    if (dgain != nullptr) access.store(dgain + i, access.load(dgain + i, T(0)) + dy_h);
    return dy_h * access.load(gain + i, T(0));
  });
  const Batch<T> mean_gh(sum_gh / static_cast<T>(n));
  for_each_batch<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> h = access.load(x + i, T(0)) * scale;
    const Batch<T> g = access.load(dy + i, T(0)) * access.load(gain + i, T(0));
    access.store(dx + i, scale * (g - h * mean_gh));
  });
}

}  // namespace

RmsNormGradients rms_norm_backward(const Array& x, const Array& gain, const Array& rstd,
                                   const Array& dy, bool with_parameters, const Array& beside) {
  const std::int64_t n = x.shape().last();
  RmsNormGradients result{Array::uninitialized(x.shape(), x.dtype()), {}};
  const Array gains = or_full(gain, n, 1, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* upstream = dy.data<T>().data();
    const T* others = beside.is_null() ? nullptr : beside.data<T>().data();
    T* out = result.dx.mutable_data<T>().data();
    ColumnSums<T> dgain(with_parameters ? n : 0);
    T* dgain_row = with_parameters ? dgain.row() : nullptr;
    const T* gains_row = gains.data<T>().data();
    const T* rstds = rstd.data<T>().data();
    for (std::int64_t row = 0; row < x.shape().rows(); ++row) {
      rms_norm_backward_row(in + row * n, gains_row, rstds[row], upstream + row * n, n,
                            out + row * n, dgain_row);
      if (others != nullptr) add_rows(out + row * n, others + row * n, n, out + row * n);
      dgain.next_row();
    }
    if (with_parameters) result.dgain = dgain.finish();
  });
  return result;
}

}  // namespace attune::kernels
