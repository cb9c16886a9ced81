#include <cmath>

#include "kernels/norm.h"
#include "kernels/norm_rows.h"

namespace attune::kernels {
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
      // A step of its own: contracted with the product before it, the sum would round otherwise
      // than two operations do.
      if (others != nullptr) add_rows(out + row * n, others + row * n, n, out + row * n);
      dgain.next_row();
    }
    if (with_parameters) result.dgain = dgain.finish();
  });
  return result;
}

}  // namespace attune::kernels
