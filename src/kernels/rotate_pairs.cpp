#include "kernels/rotate_pairs.h"

#include <algorithm>

namespace attune::kernels {
namespace {

// One head's pairs at one position; `direction` is 1, or -1 for the negative angles.
template <class T>
void rotate_half_split(const T* x, const T* c, const T* s, std::int64_t pairs, T direction, T* y) {
  const T* xb = x + pairs;
  T* yb = y + pairs;
#pragma omp simd
  for (std::int64_t k = 0; k < pairs; ++k) {
    const T sine = direction * s[k];
    y[k] = c[k] * x[k] - sine * xb[k];
    yb[k] = sine * x[k] + c[k] * xb[k];
  }
}
template <class T>
void rotate_interleaved(const T* x, const T* c, const T* s, std::int64_t pairs, T direction, T* y) {
#pragma omp simd
  for (std::int64_t k = 0; k < pairs; ++k) {
    const T sine = direction * s[k];
    const T a = x[2 * k];
    const T b = x[2 * k + 1];
    y[2 * k] = c[k] * a - sine * b;
    y[2 * k + 1] = sine * a + c[k] * b;
  }
}

Array rotate(const Array& x, std::int64_t heads, const Array& cosines, const Array& sines,
             Pairing pairing, int direction) {
  Array y = Array::uninitialized(x.shape(), x.dtype());
  const std::int64_t batch = x.shape()[0];
  const std::int64_t time = x.shape()[1];
  const std::int64_t head_dim = x.shape()[2] / heads;
  const std::int64_t pairs = cosines.shape()[2];
  const std::int64_t angles_stride = cosines.shape()[0] == 1 ? 0 : time * pairs;
  dispatch(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* c = cosines.data<T>().data() + b * angles_stride;
      const T* s = sines.data<T>().data() + b * angles_stride;
      for (std::int64_t t = 0; t < time; ++t, c += pairs, s += pairs) {
        for (std::int64_t h = 0; h < heads; ++h, from += head_dim, to += head_dim) {
          const T sign = static_cast<T>(direction);
          if (pairing == Pairing::half_split) {
            rotate_half_split(from, c, s, pairs, sign, to);
          } else {
            rotate_interleaved(from, c, s, pairs, sign, to);
          }
          std::copy(from + 2 * pairs, from + head_dim, to + 2 * pairs);
        }
      }
    }
  });
  return y;
}

}  // namespace

Array rotate_pairs(const Array& x, std::int64_t heads, const Array& cosines, const Array& sines,
                   Pairing pairing) {
  return rotate(x, heads, cosines, sines, pairing, 1);
}

Array rotate_pairs_backward(const Array& dy, std::int64_t heads, const Array& cosines,
                            const Array& sines, Pairing pairing) {
  return rotate(dy, heads, cosines, sines, pairing, -1);
}

}  // namespace attune::kernels
