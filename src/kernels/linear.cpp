#include "kernels/linear.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/small_gemm.h"

namespace attune::kernels {
namespace {

// Measured over x of 128 to 512 rows: with weights of up to 64 by 256 the panels take 0.5 to 1.06
// of the time of a BLAS call, 0.8 in the mean; beyond, blocking for the caches begins to matter.
// The extents of the weight alone decide, so that a row's result does not depend on how many there
// are; but a single row, as in decoding, is not worth a packed weight.
template <std::floating_point T>
bool suits_panels(std::int64_t rows, std::int64_t in, std::int64_t out) {
  constexpr std::int64_t kNarrow = 64;
  constexpr std::int64_t kMostWeights = 64 * 256;
  return rows > 1 && in > 0 && std::min(in, out) <= kNarrow && in * out <= kMostWeights &&
         in % kPanel<T> == 0 && out % kPanel<T> == 0;
}

// BLAS wants a distance of rows of at least 1.
std::int64_t row_distance(std::int64_t columns) { return std::max<std::int64_t>(columns, 1); }

}  // namespace

// The product adds to rows that hold the bias: that costs no more than the clearing it replaces.
Array linear(const Array& x, const Array& weight, const Array& bias) {
  const std::int64_t rows = x.shape().rows();
  const std::int64_t in = weight.shape()[1];
  const std::int64_t out = weight.shape()[0];
  Array y = Array::uninitialized(x.shape().with(-1, out), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data();
    const T* weights = weight.data<T>().data();
    T* to = y.mutable_data<T>().data();
    const bool has_bias = !bias.is_null();
    if (has_bias) {
      const T* row = bias.data<T>().data();
      for (std::int64_t i = 0; i < rows; ++i) std::copy(row, row + out, to + i * out);
    }
    if (suits_panels<T>(rows, in, out)) {
      Array packed = Array::uninitialized({in, out}, x.dtype());
      T* transposed = packed.mutable_data<T>().data();
      pack_transposed<T>(weights, in, out, in, T(1), nullptr, transposed, out);
      multiply_panels<T>(rows, out, in, {from, in, 1}, transposed, out, to, out, has_bias);
    } else {
      gemm<T>(false, true, rows, out, in, 1, from, row_distance(in), weights, row_distance(in),
              has_bias ? 1 : 0, to, row_distance(out));
    }
  });
  return y;
}

void linear_backward_x(const Array& dy, const Array& weight, Array& dx, bool holds_sum) {
  const std::int64_t rows = dy.shape().rows();
  const std::int64_t in = weight.shape()[1];
  const std::int64_t out = weight.shape()[0];
  dispatch(dy.dtype(), [&]<class T>() {
    const T* gradient = dy.data<T>().data();
    const T* weights = weight.data<T>().data();
    T* to = dx.mutable_data<T>().data();
    if (suits_panels<T>(rows, in, out)) {
      multiply_panels<T>(rows, in, out, {gradient, out, 1}, weights, in, to, in, holds_sum);
    } else {
      gemm<T>(false, false, rows, in, out, 1, gradient, row_distance(out), weights,
              row_distance(in), holds_sum ? 1 : 0, to, row_distance(in));
    }
  });
}

void linear_backward_weight(const Array& dy, const Array& x, Array& dweight, bool holds_sum) {
  const std::int64_t rows = dy.shape().rows();
  const std::int64_t in = x.shape().last();
  const std::int64_t out = dy.shape().last();
  dispatch(dy.dtype(), [&]<class T>() {
    const T* gradient = dy.data<T>().data();
    const T* from = x.data<T>().data();
    T* to = dweight.mutable_data<T>().data();
    if (suits_panels<T>(rows, in, out)) {
      multiply_panels<T>(out, in, rows, {gradient, 1, out}, from, in, to, in, holds_sum);
    } else {
      gemm<T>(true, false, out, in, rows, 1, gradient, row_distance(out), from, row_distance(in),
              holds_sum ? 1 : 0, to, row_distance(in));
    }
  });
}

}  // namespace attune::kernels
