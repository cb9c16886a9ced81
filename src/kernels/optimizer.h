#pragma once

#include <concepts>
#include <cstdint>
#include <span>

// Optimizer updates of one run of elements: each reads and writes every array once. Formulas:
// attune/optim/optimizer.h.
namespace attune::kernels {

// Constants of one update, in double; each is rounded to the arrays' type once, after all
// arithmetic among them.
struct AdamStep {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double decoupled_decay = 0;  // w -= lr decoupled_decay w
  double added_decay = 0;      // g += added_decay w
  double gradient_scale = 1;
  std::int64_t update = 1;  // t, from 1
};
// All spans have the size of `w`. m and v are updated, then w.
template <std::floating_point T>
void adam(const AdamStep& step, std::span<T> w, std::span<const T> g, std::span<T> m,
          std::span<T> v);

struct SgdStep {
  double lr = 0;
  double momentum = 0;
  double added_decay = 0;  // g += added_decay w
  double gradient_scale = 1;
};
template <std::floating_point T>
void sgd(const SgdStep& step, std::span<T> w, std::span<const T> g, std::span<T> m);

}  // namespace attune::kernels
