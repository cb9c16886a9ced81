#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attune/core/target.h"
#include "kernels/simd_batch.h"

namespace attune::kernels {
namespace {

// -sum_j q_j ln p_j of one row; writes p - q unless gradient is null.
template <std::floating_point T>
double cross_entropy_row(const T* x, std::int64_t n, std::int64_t target, double smoothing, T m,
                         T* gradient) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const Batch<T> shift(m);
  const T sum = sum_over<T>(n, [&](std::int64_t i, auto access) {
    const Batch<T> e = batch_exp(access.load(x + i, kLowest) - shift);
    if (gradient != nullptr) access.store(gradient + i, e);
    return e;
  });
  if (gradient != nullptr) {
    const Batch<T> scale(T(1) / sum);
    const Batch<T> spread(static_cast<T>(smoothing / static_cast<double>(n)));
    for_each_batch<T>(n, [&](std::int64_t i, auto access) {
      access.store(gradient + i, access.load(gradient + i, T(0)) * scale - spread);
    });
    gradient[target] -= static_cast<T>(1 - smoothing);
  }
  double expected = static_cast<double>(x[target] - m);  // sum_j q_j (x_j - m)
  if (smoothing != 0) {
    const T all =
        sum_over<T>(n, [&](std::int64_t i, auto access) { return access.load(x + i, m) - shift; });
    expected =
        (1 - smoothing) * expected + smoothing * static_cast<double>(all) / static_cast<double>(n);
  }
  return std::log(static_cast<double>(sum)) - expected;
}

}  // namespace

CrossEntropySums cross_entropy(const Array& logits, std::span<const std::int32_t> targets,
                               double label_smoothing, bool with_gradient,
                               std::span<std::uint8_t> row_correct) {
  CrossEntropySums sums;
  if (with_gradient) sums.gradient = Array::uninitialized(logits.shape(), logits.dtype());
  dispatch(logits.dtype(), [&]<class T>() {
    const std::int64_t n = logits.shape().last();
    const T* x = logits.data<T>().data();
    T* gradient = with_gradient ? sums.gradient.mutable_data<T>().data() : nullptr;
    for (std::size_t row = 0; row < targets.size(); ++row) {
      const std::int32_t target = targets[row];
      bool is_correct = false;
      if (target == kIgnore) {
        if (gradient != nullptr) std::fill_n(gradient, n, T(0));
      } else {
        const T m = max_over(x, n);
        sums.loss += cross_entropy_row(x, n, target, label_smoothing, m, gradient);
        ++sums.scored;
        is_correct = x[target] == m && std::find(x, x + target, m) == x + target;
        sums.correct += is_correct;
      }
      if (!row_correct.empty()) row_correct[row] = is_correct;
      x += n;
      if (gradient != nullptr) gradient += n;
    }
  });
  return sums;
}

Array cross_entropy_backward(Array gradient, double dloss) {
  if (dloss == 1) return gradient;
  dispatch(gradient.dtype(), [&]<class T>() {
    const T factor = static_cast<T>(dloss);
    for (T& value : gradient.mutable_data<T>()) value *= factor;
  });
  return gradient;
}

}  // namespace attune::kernels
