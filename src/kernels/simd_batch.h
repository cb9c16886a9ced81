#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <xsimd/xsimd.hpp>

// Vectors of the machine for use inside the inner loops of a kernel. Including xsimd costs two
// seconds of compile time: only kernels that fuse a transcendental function into their own loop do;
// the others call simd_math.h.
//
// Every function here treats lanes alike, and the tail of a row goes through the same arithmetic as
// its body, so what an element becomes does not depend on where in the array it lies.
namespace attune::kernels {

template <std::floating_point T>
using Batch = xsimd::batch<T>;
template <std::floating_point T>
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(Batch<T>::size);

#if defined(__AVX2__) && !defined(__AVX512F__)
// All bits set in the first `count` lanes.
template <std::floating_point T>
[[nodiscard]] inline __m256i tail_mask(std::int64_t count) {
  if constexpr (sizeof(T) == 4) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  } else {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
}

// The first `count` (0 to kLanes) elements at p, then `fill`. Reads and writes nothing beyond them.
[[nodiscard]] inline Batch<float> load_tail(const float* p, std::int64_t count, float fill) {
  const __m256i mask = tail_mask<float>(count);
  return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask),
                          _mm256_castsi256_ps(mask));
}
[[nodiscard]] inline Batch<double> load_tail(const double* p, std::int64_t count, double fill) {
  const __m256i mask = tail_mask<double>(count);
  return _mm256_blendv_pd(_mm256_set1_pd(fill), _mm256_maskload_pd(p, mask),
                          _mm256_castsi256_pd(mask));
}
inline void store_tail(float* p, std::int64_t count, const Batch<float>& values) {
  _mm256_maskstore_ps(p, tail_mask<float>(count), values);
}
inline void store_tail(double* p, std::int64_t count, const Batch<double>& values) {
  _mm256_maskstore_pd(p, tail_mask<double>(count), values);
}

// Sum and maximum over lanes by halves, for eight: ((0+4)+(2+6))+((1+5)+(3+7)).
[[nodiscard]] inline float lane_sum(const Batch<float>& values) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
[[nodiscard]] inline double lane_sum(const Batch<double>& values) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(values), _mm256_extractf128_pd(values, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
[[nodiscard]] inline float lane_max(const Batch<float>& values) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
[[nodiscard]] inline double lane_max(const Batch<double>& values) {
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(values), _mm256_extractf128_pd(values, 1));
  return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
}

// totals[i] = lane_sum(values[i]), bit for bit, for eight at the price of three: each step adds
// what lane_sum adds, for two, four and eight vectors at once.
inline void lane_sums(const Batch<float> (&values)[8], float (&totals)[8]) {
  const auto halves = [](const __m256 a, const __m256 b) {
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  const auto quarters = [](const __m256 ab, const __m256 cd) {
    return _mm256_add_ps(_mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0)),
                         _mm256_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2)));
  };
  const __m256 abcd = quarters(halves(values[0], values[4]), halves(values[1], values[5]));
  const __m256 efgh = quarters(halves(values[2], values[6]), halves(values[3], values[7]));
  _mm256_storeu_ps(totals, _mm256_add_ps(_mm256_shuffle_ps(abcd, efgh, _MM_SHUFFLE(2, 0, 2, 0)),
                                         _mm256_shuffle_ps(abcd, efgh, _MM_SHUFFLE(3, 1, 3, 1))));
}
inline void lane_sums(const Batch<double> (&values)[8], double (&totals)[8]) {
  for (std::size_t i = 0; i < 8; ++i) totals[i] = lane_sum(values[i]);
}

// columns[c], lane r = rows[8 r + c], for as many rows as there are lanes.
inline void load_columns(const float* rows, Batch<float> (&columns)[8]) {
  __m256 two[8], four[8];
  for (int r = 0; r < 8; r += 2) {
    const __m256 even = _mm256_loadu_ps(rows + 8 * r), odd = _mm256_loadu_ps(rows + 8 * r + 8);
    two[r] = _mm256_unpacklo_ps(even, odd);
    two[r + 1] = _mm256_unpackhi_ps(even, odd);
  }
  for (int r = 0; r < 8; r += 4) {
    four[r] = _mm256_shuffle_ps(two[r], two[r + 2], _MM_SHUFFLE(1, 0, 1, 0));
    four[r + 1] = _mm256_shuffle_ps(two[r], two[r + 2], _MM_SHUFFLE(3, 2, 3, 2));
    four[r + 2] = _mm256_shuffle_ps(two[r + 1], two[r + 3], _MM_SHUFFLE(1, 0, 1, 0));
    four[r + 3] = _mm256_shuffle_ps(two[r + 1], two[r + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int c = 0; c < 4; ++c) {
    columns[c] = _mm256_permute2f128_ps(four[c], four[c + 4], 0x20);
    columns[c + 4] = _mm256_permute2f128_ps(four[c], four[c + 4], 0x31);
  }
}
inline void load_columns(const double* rows, Batch<double> (&columns)[8]) {
  for (int c = 0; c < 8; ++c)
    columns[c] = _mm256_setr_pd(rows[c], rows[8 + c], rows[16 + c], rows[24 + c]);
}
#else
// The first `count` (0 to kLanes) elements at p, then `fill`. Reads and writes nothing beyond them.
template <std::floating_point T>
[[nodiscard]] inline Batch<T> load_tail(const T* p, std::int64_t count, T fill) {
  alignas(64) T lanes[kLanes<T>];
  for (std::int64_t i = 0; i < kLanes<T>; ++i) lanes[i] = i < count ? p[i] : fill;
  return Batch<T>::load_aligned(lanes);
}
template <std::floating_point T>
inline void store_tail(T* p, std::int64_t count, const Batch<T>& values) {
  alignas(64) T lanes[kLanes<T>];
  values.store_aligned(lanes);
  for (std::int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// Sum and maximum over lanes by halves, for eight: ((0+4)+(2+6))+((1+5)+(3+7)).
template <std::floating_point T>
[[nodiscard]] inline T lane_sum(const Batch<T>& values) {
  alignas(64) T lanes[kLanes<T>];
  values.store_aligned(lanes);
  for (std::int64_t half = kLanes<T> / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}
template <std::floating_point T>
[[nodiscard]] inline T lane_max(const Batch<T>& values) {
  alignas(64) T lanes[kLanes<T>];
  values.store_aligned(lanes);
  for (std::int64_t half = kLanes<T> / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i)
      lanes[i] = lanes[i] < lanes[i + half] ? lanes[i + half] : lanes[i];
  return lanes[0];
}
// totals[i] = lane_sum(values[i])
template <std::floating_point T>
inline void lane_sums(const Batch<T> (&values)[8], T (&totals)[8]) {
  for (std::size_t i = 0; i < 8; ++i) totals[i] = lane_sum(values[i]);
}
// columns[c], lane r = rows[8 r + c], for as many rows as there are lanes.
template <std::floating_point T>
inline void load_columns(const T* rows, Batch<T> (&columns)[8]) {
  for (std::int64_t c = 0; c < 8; ++c) {
    alignas(64) T lanes[kLanes<T>];
    for (std::int64_t r = 0; r < kLanes<T>; ++r) lanes[r] = rows[8 * r + c];
    columns[c] = Batch<T>::load_aligned(lanes);
  }
}
#endif

// How the body of a loop reads and writes: whole batches, or the `count` elements that are left of
// a row.
template <std::floating_point T>
struct WholeAccess {
  static constexpr bool kIsWhole = true;
  [[nodiscard]] Batch<T> load(const T* p, T /*fill*/) const { return Batch<T>::load_unaligned(p); }
  void store(T* p, const Batch<T>& values) const { values.store_unaligned(p); }
};
template <std::floating_point T>
struct TailAccess {
  static constexpr bool kIsWhole = false;
  std::int64_t count;
  [[nodiscard]] Batch<T> load(const T* p, T fill) const { return load_tail(p, count, fill); }
  void store(T* p, const Batch<T>& values) const { store_tail(p, count, values); }
};

// body(i, access) for i = 0, kLanes, ... < n. Operands go through access.load(p + i, fill) and
// access.store(p + i, v).
template <std::floating_point T, class Body>
inline void for_each_batch(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) body(i, WholeAccess<T>{});
  if (i < n) body(i, TailAccess<T>{n - i});
}

// y = f(x) element by element, f a function of batches. y may be x.
template <std::floating_point T, class F>
inline void map_into(const T* x, T* y, std::int64_t n, F f) {
  for_each_batch<T>(
      n, [&](std::int64_t i, auto access) { access.store(y + i, f(access.load(x + i, T(1)))); });
}

// The sum of term(i, access) over a row; `term` is 0 in the lanes beyond n. Four accumulators hide
// the latency of the addition; the order of summation depends on n alone.
template <std::floating_point T, class Term>
[[nodiscard]] inline T sum_over(std::int64_t n, Term term) {
  Batch<T> sums[4] = {Batch<T>(T(0)), Batch<T>(T(0)), Batch<T>(T(0)), Batch<T>(T(0))};
  std::int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>) {
    sums[0] += term(i, WholeAccess<T>{});
    sums[1] += term(i + kLanes<T>, WholeAccess<T>{});
    sums[2] += term(i + 2 * kLanes<T>, WholeAccess<T>{});
    sums[3] += term(i + 3 * kLanes<T>, WholeAccess<T>{});
  }
  for (; i + kLanes<T> <= n; i += kLanes<T>) sums[0] += term(i, WholeAccess<T>{});
  if (i < n) sums[1] += term(i, TailAccess<T>{n - i});
  return lane_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The maximum of x; NaN counts as absent on x86, and -inf is the maximum of nothing.
template <std::floating_point T>
[[nodiscard]] inline T max_over(const T* x, std::int64_t n) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  Batch<T> even(kLowest);
  Batch<T> odd(kLowest);
  std::int64_t i = 0;
  // maxps takes its second operand where the first is NaN.
  for (; i + 2 * kLanes<T> <= n; i += 2 * kLanes<T>) {
    even = xsimd::max(Batch<T>::load_unaligned(x + i), even);
    odd = xsimd::max(Batch<T>::load_unaligned(x + i + kLanes<T>), odd);
  }
  if (i + kLanes<T> <= n) {
    even = xsimd::max(Batch<T>::load_unaligned(x + i), even);
    i += kLanes<T>;
  }
  if (i < n) odd = xsimd::max(load_tail(x + i, n - i, kLowest), odd);
  return lane_max(xsimd::max(even, odd));
}

// e^x. Overflow gives +inf, NaN stays NaN, and what would be subnormal, such as exp(-inf), is 0.
// float: x = k ln 2 + r with ln 2 in two parts (Cody & Waite 1980), a polynomial of degree 6 in r,
// minimax in relative error (3.1e-9 on |r| <= ln 2 / 2), and k added to the exponent bits.
// Within 1.1 ulp and a third faster than xsimd::exp.
[[nodiscard]] inline Batch<float> batch_exp(const Batch<float>& x) {
  using Integers = xsimd::batch<std::int32_t>;
  const Batch<float> k = xsimd::nearbyint(x * Batch<float>(1.44269504F));
  Batch<float> r = xsimd::fnma(k, Batch<float>(0.693359375F), x);
  r = xsimd::fnma(k, Batch<float>(-2.12194440e-4F), r);
  Batch<float> p = xsimd::fma(Batch<float>(0.001381458164F), r, Batch<float>(0.008368724146F));
  p = xsimd::fma(p, r, Batch<float>(0.04166838878F));
  p = xsimd::fma(p, r, Batch<float>(0.1666652057F));
  p = xsimd::fma(p, r, Batch<float>(0.4999999344F));
  p = xsimd::fma(p * r, r, r) + Batch<float>(1.0F);
  const Integers exponent = xsimd::batch_cast<std::int32_t>(k) << 23;
  Batch<float> y = xsimd::bitwise_cast<Batch<float>>(xsimd::bitwise_cast<Integers>(p) + exponent);
  y = xsimd::select(x < Batch<float>(-87.3365402F), Batch<float>(0.0F), y);
  return xsimd::select(x > Batch<float>(88.7228317F),
                       Batch<float>(std::numeric_limits<float>::infinity()), y);
}
[[nodiscard]] inline Batch<double> batch_exp(const Batch<double>& x) { return xsimd::exp(x); }

// c_0 + c_1 u + c_2 u^2 + ..., by Horner's rule.
template <std::size_t N>
[[nodiscard]] inline Batch<float> polynomial(const Batch<float>& u,
                                             const float (&coefficients)[N]) {
  Batch<float> sum(coefficients[N - 1]);
  for (std::size_t k = N - 1; k > 0; --k)
    sum = xsimd::fma(sum, u, Batch<float>(coefficients[k - 1]));
  return sum;
}

// float: x P(x^2) / Q(x^2), fitted for relative error (2.2e-9) on |x| <= 3.925 by reweighted least
// squares; beyond that erf rounds to 1. Within 6 ulp (3.3e-7) in half the time of xsimd::erf, which
// is within 2.4 ulp.
[[nodiscard]] inline Batch<float> batch_erf(const Batch<float>& x) {
  constexpr float kNumerator[] = {1.12837917F,     0.1924598784F,   0.05558230149F,
                                  0.004194545086F, 4.057315567e-4F, 6.588209441e-6F};
  constexpr float kDenominator[] = {1.0F,           0.5038965477F,   0.1172234738F,
                                    0.01621315091F, 0.001407523814F, 7.110831791e-5F,
                                    2.489758361e-7F};
  const Batch<float> u = x * x;
  const Batch<float> y = x * polynomial(u, kNumerator) / polynomial(u, kDenominator);
  const Batch<float> one = xsimd::copysign(Batch<float>(1.0F), x);
  return xsimd::select(xsimd::abs(x) > Batch<float>(3.925F), one, y);
}

// double: from |x| = 9 on erf is 1 to the last bit, and xsimd 8.1 gives NaN where x^2 overflows.
[[nodiscard]] inline Batch<double> batch_erf(const Batch<double>& x) {
  const Batch<double> limit(9.0);
  return xsimd::erf(xsimd::select(xsimd::abs(x) > limit, xsimd::copysign(limit, x), x));
}

}  // namespace attune::kernels
