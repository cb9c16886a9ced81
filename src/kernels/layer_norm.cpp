#include <cmath>

#include "kernels/norm.h"
#include "kernels/norm_rows.h"

namespace attune::kernels {
namespace {

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
      // A step of its own: contracted with the product before it, the sum would round otherwise
      // than two operations do.
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

}  // namespace attune::kernels
