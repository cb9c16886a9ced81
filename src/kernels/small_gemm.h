#pragma once

#include <concepts>
#include <cstdint>

// Matrix products of the sizes of one attention head, some ten to a hundred rows and columns, where
// a BLAS call spends a third of its time on finding out what to do. The right operand and the
// result lie in rows padded to whole vectors ("panels"), so that the inner loop has no tails; who
// packs an operand into that form reads it once, from wherever its head lies.
//
// An element of the result is one chain of additions over k in ascending order. It does not depend
// on m, n or its place: a row computed alone is bitwise the row computed among others.
namespace attune::kernels {

// Bytes and elements of one vector register; never less than those of simd_batch.h.
#ifdef __AVX512F__
inline constexpr int kPanelBytes = 64;
#else
inline constexpr int kPanelBytes = 32;
#endif
template <std::floating_point T>
inline constexpr std::int64_t kPanel = kPanelBytes / static_cast<std::int64_t>(sizeof(T));

// n rounded up to whole panels.
template <std::floating_point T>
[[nodiscard]] constexpr std::int64_t padded(std::int64_t n) {
  return (n + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
}

// The left operand: element (i, p) at data[i * row + p * column], so that a transpose is a swap of
// the two.
template <std::floating_point T>
struct LeftOperand {
  const T* data;
  std::int64_t row;
  std::int64_t column;
};

// c[i, j] = sum_p a(i, p) b[p, j], to which the old c[i, j] is added first where `accumulate` is
// set, for i < m, j < n, p < k. n is a multiple of kPanel; rows of b and c are ldb and ldc apart.
template <std::floating_point T>
void multiply_panels(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a, const T* b,
                     std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate);

// c[i, j] = sum_p a(i, p) (factor b[p, j]): bit for bit the product with a right operand that was
// packed with `factor`.
template <std::floating_point T>
void multiply_scaled_panels(std::int64_t m, std::int64_t n, std::int64_t k, LeftOperand<T> a,
                            T factor, const T* b, std::int64_t ldb, T* c, std::int64_t ldc);

// x: [rows, width], rows `stride` apart -> y: [rows, padded(width)], y = factor * x, zeros as
// padding. Where `kept` is given, a row with kept[row] == 0 becomes zeros, whatever x holds there.
template <std::floating_point T>
void pack(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width, T factor,
          const T* kept, T* y);

// The same, transposed: y: [width, ldy], row c of y holds column c of x, zeros from `rows` to
// padded(rows).
template <std::floating_point T>
void pack_transposed(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t width,
                     T factor, const T* kept, T* y, std::int64_t ldy);

}  // namespace attune::kernels
