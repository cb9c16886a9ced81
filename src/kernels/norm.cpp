#include "kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd_batch.h"

namespace attune::kernels {
namespace {

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

}  // namespace

LayerNorm layer_norm(const Array& x, const Array& gain, const Array& shift, double eps) {
  const std::int64_t n = x.shape().last();
  const std::int64_t rows = x.shape().rows();
  const DType dtype = x.dtype();
  LayerNorm result{Array::uninitialized(x.shape(), dtype), Array::uninitialized({rows}, dtype),
                   Array::uninitialized({rows}, dtype)};
  const Array gains = or_full(gain, n, 1, dtype);
  const Array shifts = or_full(shift, n, 0, dtype);
  dispatch(dtype, [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* g = gains.data<T>().data();
    const T* s = shifts.data<T>().data();
    T* out = result.y.mutable_data<T>().data();
    T* mean = result.mean.mutable_data<T>().data();
    T* rstd = result.rstd.mutable_data<T>().data();
    for (std::int64_t row = 0; row < rows; ++row, in += n, out += n) {
      const RowStatistics<T> row_statistics = statistics_of(in, n, static_cast<T>(eps));
      mean[row] = row_statistics.mean;
      rstd[row] = row_statistics.rstd;
      const Batch<T> center(mean[row]);
      const Batch<T> scale(rstd[row]);
      for_each_batch<T>(n, [&](std::int64_t i, auto access) {
        const Batch<T> h = (access.load(in + i, T(0)) - center) * scale;
        access.store(out + i, xsimd::fma(h, access.load(g + i, T(0)), access.load(s + i, T(0))));
      });
    }
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
                                       const Array& rstd, const Array& dy, bool with_parameters) {
  const std::int64_t n = x.shape().last();
  LayerNormGradients result{Array::uninitialized(x.shape(), x.dtype()), {}, {}};
  const Array gains = or_full(gain, n, 1, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* upstream = dy.data<T>().data();
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
      dgain.next_row();
      dshift.next_row();
    }
    if (!with_parameters) return;
    result.dgain = dgain.finish();
    result.dshift = dshift.finish();
  });
  return result;
}

RmsNorm rms_norm(const Array& x, const Array& gain, double eps) {
  const std::int64_t n = x.shape().last();
  const std::int64_t rows = x.shape().rows();
  RmsNorm result{Array::uninitialized(x.shape(), x.dtype()),
                 Array::uninitialized({rows}, x.dtype())};
  const Array gains = or_full(gain, n, 1, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* g = gains.data<T>().data();
    T* out = result.y.mutable_data<T>().data();
    T* rstd = result.rstd.mutable_data<T>().data();
    for (std::int64_t row = 0; row < rows; ++row, in += n, out += n) {
      const T sum = sum_over<T>(n, [&](std::int64_t i, auto access) {
        const Batch<T> v = access.load(in + i, T(0));
        return v * v;
      });
      rstd[row] = T(1) / std::sqrt(sum / static_cast<T>(n) + static_cast<T>(eps));
      const Batch<T> scale(rstd[row]);
      for_each_batch<T>(n, [&](std::int64_t i, auto access) {
        access.store(out + i, access.load(in + i, T(0)) * scale * access.load(g + i, T(0)));
      });
    }
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
                                   const Array& dy, bool with_parameters) {
  const std::int64_t n = x.shape().last();
  RmsNormGradients result{Array::uninitialized(x.shape(), x.dtype()), {}};
  const Array gains = or_full(gain, n, 1, x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* in = x.data<T>().data();
    const T* upstream = dy.data<T>().data();
    T* out = result.dx.mutable_data<T>().data();
    ColumnSums<T> dgain(with_parameters ? n : 0);
    T* dgain_row = with_parameters ? dgain.row() : nullptr;
    const T* gains_row = gains.data<T>().data();
    const T* rstds = rstd.data<T>().data();
    for (std::int64_t row = 0; row < x.shape().rows(); ++row) {
      rms_norm_backward_row(in + row * n, gains_row, rstds[row], upstream + row * n, n,
                            out + row * n, dgain_row);
      dgain.next_row();
    }
    if (with_parameters) result.dgain = dgain.finish();
  });
  return result;
}

}  // namespace attune::kernels
