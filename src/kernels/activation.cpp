// The functions of unary.h that come with their slope. They fuse transcendental functions into one
// pass and so speak xsimd, which costs seconds to compile: hence a file of their own.

#include <numbers>
#include <utility>

#include "kernels/reuse.h"
#include "kernels/simd_batch.h"
#include "kernels/unary.h"

namespace attune::kernels {
namespace {

template <std::floating_point T>
struct Pair {
  Batch<T> value;
  Batch<T> slope;
};

// f: a batch of x to a Pair; the slope is not computed where only the value is used, for f is
// inlined.
template <class F>
Array map_value(Array x, F f) {
  return dispatch(x.dtype(), [&]<class T>() {
    const std::int64_t size = x.size();
    const T* from = x.data<T>().data();
    Array value = reuse(x);
    map_into(from, value.mutable_data<T>().data(), size,
             [f](const Batch<T>& v) { return f(v).value; });
    return value;
  });
}

template <class F>
ValueAndSlope map_both(Array x, F f) {
  return dispatch(x.dtype(), [&]<class T>() {
    const std::int64_t size = x.size();
    const T* from = x.data<T>().data();
    Array slopes = Array::uninitialized(x.shape(), x.dtype());
    ValueAndSlope result{reuse(x), std::move(slopes)};
    T* value = result.value.mutable_data<T>().data();
    T* slope = result.slope.mutable_data<T>().data();
    std::int64_t i = 0;
    for (; i + kLanes<T> <= size; i += kLanes<T>) {
      const Pair<T> both = f(Batch<T>::load_unaligned(from + i));
      both.value.store_unaligned(value + i);
      both.slope.store_unaligned(slope + i);
    }
    if (i < size) {
      const Pair<T> both = f(load_tail(from + i, size - i, T{1}));
      store_tail(value + i, size - i, both.value);
      store_tail(slope + i, size - i, both.slope);
    }
    return result;
  });
}

template <std::floating_point T>
Batch<T> constant(double value) {
  return Batch<T>(static_cast<T>(value));
}

// 1 / (1 + e^-x) from e = e^-|x|, which cannot overflow.
template <std::floating_point T>
Batch<T> batch_sigmoid(const Batch<T>& x, const Batch<T>& e) {
  const Batch<T> one(T{1});
  return xsimd::select(x < Batch<T>(T{0}), e, one) / (one + e);
}

// y = max(x, 0) + ln(1 + e^-|x|), y' = sigmoid(x)
constexpr auto kSoftplus = []<class T>(const Batch<T>& x) {
  const Batch<T> e = batch_exp(-xsimd::abs(x));
  const Batch<T> zero(T{0});
  // Not max(), which would drop a NaN.
  return Pair<T>{xsimd::select(x < zero, zero, x) + xsimd::log1p(e), batch_sigmoid(x, e)};
};

// Phi(-|x|) = erfc(z) / 2, z = |x| / sqrt 2, given e = e^(-x^2/2) = e^(-z^2).
Batch<double> lower_tail(const Batch<double>& magnitude, const Batch<double>&) {
  return constant<double>(0.5) * xsimd::erfc(magnitude * constant<double>(1 / std::numbers::sqrt2));
}
// With t = 1 / (1 + 0.4 z), erfc(z) = t e^(-z^2) P(t): the substitution of Hastings (1955, sheet
// 43) with a polynomial of our own, through e^(z^2) erfc(z) / t at the ten Chebyshev nodes of 0 <=
// z <= 10. Its relative error stays below 2e-8, so that the tail does not cancel; and e serves the
// density as well.
Batch<float> lower_tail(const Batch<float>& magnitude, const Batch<float>& e) {
  constexpr float kCoefficients[] = {
      -3.35011389e-02f, 2.18785425e-01f, -5.46502786e-01f, 6.09342416e-01f, -3.34312081e-01f,
      2.97973310e-01f,  1.21059941e-01f, 2.16689395e-01f,  2.24748664e-01f, 2.25716857e-01f};
  const Batch<float> one(1.0f);
  const Batch<float> t =
      one / xsimd::fma(magnitude, constant<float>(0.4 / std::numbers::sqrt2), one);
  Batch<float> polynomial(0.0f);
  for (const float coefficient : kCoefficients) {
    polynomial = xsimd::fma(polynomial, t, Batch<float>(coefficient));
  }
  return constant<float>(0.5) * t * e * polynomial;
}

// y = x Phi(x), y' = Phi(x) + x phi(x), Phi the normal distribution and phi(x) = e^(-x^2/2) /
// sqrt(2 pi) its density
constexpr auto kGelu = []<class T>(const Batch<T>& x) {
  const Batch<T> e = batch_exp(constant<T>(-0.5) * x * x);
  const Batch<T> tail = lower_tail(xsimd::abs(x), e);
  const Batch<T> distribution = xsimd::select(x < Batch<T>(T{0}), tail, Batch<T>(T{1}) - tail);
  const Batch<T> scale = constant<T>(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return Pair<T>{x * distribution, distribution + x * (scale * e)};
};

// With u = sqrt(2 / pi) (x + 0.044715 x^3): (1 + tanh u) / 2 = sigmoid(2u) = s, which does not
// cancel for u < 0. y = x s, y' = s + x s (1 - s) 2u', u' = sqrt(2 / pi) (1 + 3 0.044715 x^2)
constexpr auto kGeluTanh = []<class T>(const Batch<T>& x) {
  const double slope_at_zero = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Batch<T> one(T{1});
  const Batch<T> square = x * x;
  const Batch<T> twice_u =
      x * (constant<T>(slope_at_zero) + constant<T>(slope_at_zero * 0.044715) * square);
  const Batch<T> s = batch_sigmoid(twice_u, batch_exp(-xsimd::abs(twice_u)));
  const Batch<T> twice_u_slope =
      constant<T>(slope_at_zero) + constant<T>(slope_at_zero * 3 * 0.044715) * square;
  const Batch<T> y = x * s;
  return Pair<T>{y, s + y * (one - s) * twice_u_slope};
};

// With s = sigmoid(x): y = x s, y' = s + x s (1 - s)
template <std::floating_point T>
Pair<T> silu_of(const Batch<T>& x, const Batch<T>& s) {
  const Batch<T> y = x * s;
  return Pair<T>{y, s + y * (Batch<T>(T{1}) - s)};
}
constexpr auto kSilu = []<class T>(const Batch<T>& x) {
  return silu_of(x, batch_sigmoid(x, batch_exp(-xsimd::abs(x))));
};

}  // namespace

Array softplus(Array x) { return map_value(std::move(x), kSoftplus); }
ValueAndSlope softplus_with_slope(Array x) { return map_both(std::move(x), kSoftplus); }
Array gelu(Array x) { return map_value(std::move(x), kGelu); }
ValueAndSlope gelu_with_slope(Array x) { return map_both(std::move(x), kGelu); }
Array gelu_tanh(Array x) { return map_value(std::move(x), kGeluTanh); }
ValueAndSlope gelu_tanh_with_slope(Array x) { return map_both(std::move(x), kGeluTanh); }
Array silu(Array x) { return map_value(std::move(x), kSilu); }
ValueAndSlope silu_with_slope(Array x) { return map_both(std::move(x), kSilu); }

Array swiglu(const Array& gate, const Array& up) {
  return dispatch(gate.dtype(), [&]<class T>() {
    Array y = Array::uninitialized(gate.shape(), gate.dtype());
    const T* g = gate.data<T>().data();
    const T* u = up.data<T>().data();
    T* out = y.mutable_data<T>().data();
    for_each_batch<T>(gate.size(), [&](std::int64_t i, auto access) {
      access.store(out + i, kSilu(access.load(g + i, T{0})).value * access.load(u + i, T{0}));
    });
    return y;
  });
}

Swiglu swiglu_with_sigmoid(const Array& gate, const Array& up) {
  return dispatch(gate.dtype(), [&]<class T>() {
    Swiglu result{Array::uninitialized(gate.shape(), gate.dtype()),
                  Array::uninitialized(gate.shape(), gate.dtype())};
    const T* g = gate.data<T>().data();
    const T* u = up.data<T>().data();
    T* y = result.y.mutable_data<T>().data();
    T* sigmoid = result.sigmoid.mutable_data<T>().data();
    for_each_batch<T>(gate.size(), [&](std::int64_t i, auto access) {
      const Batch<T> x = access.load(g + i, T{0});
      const Batch<T> s = batch_sigmoid(x, batch_exp(-xsimd::abs(x)));
      access.store(sigmoid + i, s);
      access.store(y + i, silu_of(x, s).value * access.load(u + i, T{0}));
    });
    return result;
  });
}

namespace {

// dy slope, and 0 wherever dy is 0: see chain() in binary.h.
template <std::floating_point T>
Batch<T> batch_chain(const Batch<T>& dy, const Batch<T>& slope) {
  const Batch<T> zero(T{0});
  return xsimd::select(dy == zero, zero, dy * slope);
}

}  // namespace

SwigluGradients swiglu_backward(const Array& dy, const Array& gate, Array up, Array sigmoid) {
  return dispatch(dy.dtype(), [&]<class T>() {
    const T* d = dy.data<T>().data();
    const T* g = gate.data<T>().data();
    const T* u = up.data<T>().data();
    const T* s = sigmoid.data<T>().data();
    SwigluGradients result{reuse(sigmoid), reuse(up)};
    T* dgate = result.dgate.mutable_data<T>().data();
    T* dup = result.dup.mutable_data<T>().data();
    for_each_batch<T>(dy.size(), [&](std::int64_t i, auto access) {
      const Batch<T> upstream = access.load(d + i, T{0});
      const Pair<T> silu = silu_of(access.load(g + i, T{0}), access.load(s + i, T{0}));
      const Batch<T> factor = access.load(u + i, T{0});
      access.store(dgate + i, batch_chain(batch_chain(upstream, factor), silu.slope));
      access.store(dup + i, batch_chain(upstream, silu.value));
    });
    return result;
  });
}

}  // namespace attune::kernels
