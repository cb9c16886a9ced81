#include "kernels/small_gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace attune::kernels {
namespace {

// A panel by the compiler's vector extension: one register on x86-64-v3, several shorter ones where
// there is none of its size.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kPanelBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
inline Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
// The first `count` elements at p, then zeros.
template <class T>
inline Vector<T> load_part(const T* p, std::int64_t count) {
  T elements[kPanel<T>] = {};
  std::copy_n(p, count, elements);
  return load(elements);
}
template <class T>
inline void store(T* p, const Vector<T>& v) {
  std::memcpy(p, &v, sizeof(v));
}

// The right operand of a product: b, or factor b where that is scaled.
template <class T, bool kScaled>
struct RightOperand {
  const T* data;
  std::int64_t row;
  T factor;

  [[nodiscard]] RightOperand from(std::int64_t column) const {
    return {data + column, row, factor};
  }
  [[nodiscard]] Vector<T> vector(int v) const {
    if constexpr (kScaled) return factor * load(data + v * kPanel<T>);
    return load(data + v * kPanel<T>);
  }
};

// kRows x kVectors sums live in registers while p runs: 6 x 2 use 12 of 16. The unrolling is what
// keeps them there; g++ spills rolled loops.
template <int kRows, int kVectors, class T, bool kScaled>
void multiply_block(std::int64_t k, LeftOperand<T> a, RightOperand<T, kScaled> b, T* c,
                    std::int64_t ldc, bool accumulate) {
  Vector<T> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sum[i][v] = accumulate ? load(c + i * ldc + v * kPanel<T>) : Vector<T>{};
  for (std::int64_t p = 0; p < k; ++p, a.data += a.column, b.data += b.row) {
    Vector<T> right[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) right[v] = b.vector(v);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[i][v] += a.data[i * a.row] * right[v];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) store(c + i * ldc + v * kPanel<T>, sum[i][v]);
}

// All rows of kVectors columns of panels.
template <int kVectors, class T, bool kScaled>
void multiply_column(std::int64_t m, std::int64_t k, LeftOperand<T> a, RightOperand<T, kScaled> b,
                     T* c, std::int64_t ldc, bool accumulate) {
  constexpr std::int64_t kBlock = 6;
  for (; m >= kBlock; m -= kBlock, a.data += kBlock * a.row, c += kBlock * ldc)
    multiply_block<kBlock, kVectors>(k, a, b, c, ldc, accumulate);
  switch (m) {
    case 5:
      return multiply_block<5, kVectors>(k, a, b, c, ldc, accumulate);
    case 4:
      return multiply_block<4, kVectors>(k, a, b, c, ldc, accumulate);
    case 3:
      return multiply_block<3, kVectors>(k, a, b, c, ldc, accumulate);
    case 2:
      return multiply_block<2, kVectors>(k, a, b, c, ldc, accumulate);
    case 1:
      return multiply_block<1, kVectors>(k, a, b, c, ldc, accumulate);
    default:
      return;
  }
}

// A row alone has one chain of additions a vector: many vectors at once hide the latency of each.
template <class T, bool kScaled>
void multiply_all(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a,
                  RightOperand<T, kScaled> b, T* c, std::int64_t ldc, bool accumulate) {
  constexpr std::int64_t kWide = 8 * kPanel<T>, kMiddle = 4 * kPanel<T>, kNarrow = 2 * kPanel<T>;
  std::int64_t j = 0;
  if (m == 1) {
    for (; j + kWide <= n; j += kWide)
      multiply_block<1, 8>(k, a, b.from(j), c + j, ldc, accumulate);
    for (; j + kMiddle <= n; j += kMiddle)
      multiply_block<1, 4>(k, a, b.from(j), c + j, ldc, accumulate);
  }
  for (; j + kNarrow <= n; j += kNarrow)
    multiply_column<2>(m, k, a, b.from(j), c + j, ldc, accumulate);
  if (j < n) multiply_column<1>(m, k, a, b.from(j), c + j, ldc, accumulate);
}

// The lower (kHigh = 0) or upper half of a and b, element by element in turn.
template <int kHigh, class V, int... kLane>
inline V interleave(const V& a, const V& b, std::integer_sequence<int, kLane...>) {
  constexpr int n = sizeof...(kLane);
  return __builtin_shufflevector(a, b, (kHigh * n / 2 + kLane / 2 + kLane % 2 * n)...);
}

// Transposes a square of kPanel vectors: interleaving the first half of the rows with the second,
// log2(kPanel) times over, moves element (i, j) to (j, i) (Batcher's perfect shuffle).
template <class T>
inline void transpose_square(Vector<T> (&rows)[kPanel<T>]) {
  constexpr int n = static_cast<int>(kPanel<T>);
  constexpr std::make_integer_sequence<int, n> lanes{};
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
    Vector<T> shuffled[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      shuffled[2 * i] = interleave<0>(rows[i], rows[i + n / 2], lanes);
      shuffled[2 * i + 1] = interleave<1>(rows[i], rows[i + n / 2], lanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) rows[i] = shuffled[i];
  }
}

}  // namespace

template <std::floating_point T>
void multiply_panels(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a, const T* b,
                     std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) {
  multiply_all(m, n, k, a, RightOperand<T, false>{b, ldb, T(1)}, c, ldc, accumulate);
}

template <std::floating_point T>
void multiply_scaled_panels(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a,
                            T factor, const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  multiply_all(m, n, k, a, RightOperand<T, true>{b, ldb, factor}, c, ldc, false);
}

template <std::floating_point T>
void pack(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, T factor,
          const T* kept, T* y) {
  const std::int64_t ldy = padded<T>(width);
  for (std::int64_t i = 0; i < rows; ++i, x += stride, y += ldy) {
    if (kept != nullptr && kept[i] == 0) {
      std::fill_n(y, ldy, T(0));
      continue;
    }
    std::int64_t c = 0;
    for (; c + kPanel<T> <= width; c += kPanel<T>) store<T>(y + c, factor * load(x + c));
    if (c < width) store<T>(y + c, factor * load_part(x + c, width - c));
  }
}

template <std::floating_point T>
void pack_transposed(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width,
                     T factor, const T* kept, T* y, std::int64_t ldy) {
  constexpr std::int64_t n = kPanel<T>;
  for (std::int64_t i = 0; i < rows; i += n, x += n * stride, y += n) {
    const std::int64_t height = std::min(n, rows - i);
    for (std::int64_t c = 0; c < width; c += n) {
      Vector<T> square[n];
      const bool whole = height == n && c + n <= width;
      for (std::int64_t r = 0; r < n; ++r) {
        square[r] = Vector<T>{};
        if (r >= height || (kept != nullptr && kept[i + r] == 0)) continue;
        if (whole) {
          square[r] = factor * load(x + r * stride + c);
        } else {
          square[r] = factor * load_part(x + r * stride + c, std::min(n, width - c));
        }
      }
      transpose_square<T>(square);
      for (std::int64_t l = 0; l < std::min(n, width - c); ++l) store(y + (c + l) * ldy, square[l]);
    }
  }
}

template void multiply_panels<float>(std::int64_t, std::int64_t, std::int64_t, LeftOperand<float>,
                                     const float*, std::int64_t, float*, std::int64_t, bool);
template void multiply_panels<double>(std::int64_t, std::int64_t, std::int64_t, LeftOperand<double>,
                                      const double*, std::int64_t, double*, std::int64_t, bool);
template void multiply_scaled_panels<float>(std::int64_t, std::int64_t, std::int64_t,
                                            LeftOperand<float>, float, const float*, std::int64_t,
                                            float*, std::int64_t);
template void multiply_scaled_panels<double>(std::int64_t, std::int64_t, std::int64_t,
                                             LeftOperand<double>, double, const double*,
                                             std::int64_t, double*, std::int64_t);
template void pack<float>(const float*, std::int64_t, std::int64_t, std::int64_t, float,
                          const float*, float*);
template void pack<double>(const double*, std::int64_t, std::int64_t, std::int64_t, double,
                           const double*, double*);
template void pack_transposed<float>(const float*, std::int64_t, std::int64_t, std::int64_t, float,
                                     const float*, float*, std::int64_t);
template void pack_transposed<double>(const double*, std::int64_t, std::int64_t, std::int64_t,
                                      double, const double*, double*, std::int64_t);

}  // namespace attune::kernels
