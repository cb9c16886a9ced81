#include "kernels/optimizer.h"

#include <cmath>
#include <cstddef>

namespace attune::kernels {

// m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
// w = (1 - lr decay) w - [lr / (1 - beta1^t)] m / (sqrt(v) [1 / sqrt(1 - beta2^t)] + eps)
// The brackets are constants: eps stays outside the corrected root, as in the paper.
template <std::floating_point T>
void adam(const AdamStep& step, std::span<T> w, std::span<const T> g, std::span<T> m,
          std::span<T> v) {
  const auto t = static_cast<double>(step.update);
  const auto scale = static_cast<T>(step.gradient_scale);
  const auto added_decay = static_cast<T>(step.added_decay);
  const auto beta1 = static_cast<T>(step.beta1);
  const auto beta2 = static_cast<T>(step.beta2);
  const auto rest1 = static_cast<T>(1 - step.beta1);
  const auto rest2 = static_cast<T>(1 - step.beta2);
  const auto keep = static_cast<T>(1 - step.lr * step.decoupled_decay);
  const auto rate = static_cast<T>(step.lr / (1 - std::pow(step.beta1, t)));
  const auto root = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
  const auto eps = static_cast<T>(step.eps);

  T* const __restrict w_data = w.data();
  const T* const __restrict g_data = g.data();
  T* const __restrict m_data = m.data();
  T* const __restrict v_data = v.data();
  const std::size_t size = w.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = g_data[i] * scale + added_decay * w_data[i];
    const T mean = beta1 * m_data[i] + rest1 * gradient;
    const T square = beta2 * v_data[i] + rest2 * gradient * gradient;
    m_data[i] = mean;
    v_data[i] = square;
    w_data[i] = keep * w_data[i] - rate * (mean / (std::sqrt(square) * root + eps));
  }
}
template void adam(const AdamStep&, std::span<float>, std::span<const float>, std::span<float>,
                   std::span<float>);
template void adam(const AdamStep&, std::span<double>, std::span<const double>, std::span<double>,
                   std::span<double>);

// m = momentum m + g + decay w          w = w - lr m
template <std::floating_point T>
void sgd(const SgdStep& step, std::span<T> w, std::span<const T> g, std::span<T> m) {
  const auto lr = static_cast<T>(step.lr);
  const auto momentum = static_cast<T>(step.momentum);
  const auto scale = static_cast<T>(step.gradient_scale);
  const auto added_decay = static_cast<T>(step.added_decay);

  T* const __restrict w_data = w.data();
  const T* const __restrict g_data = g.data();
  T* const __restrict m_data = m.data();
  const std::size_t size = w.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = g_data[i] * scale + added_decay * w_data[i];
    const T moment = momentum * m_data[i] + gradient;
    m_data[i] = moment;
    w_data[i] -= lr * moment;
  }
}
template void sgd(const SgdStep&, std::span<float>, std::span<const float>, std::span<float>);
template void sgd(const SgdStep&, std::span<double>, std::span<const double>, std::span<double>);

}  // namespace attune::kernels
