#pragma once

#include "attune/array/array.h"

namespace attune::kernels {

// How a batched product y = op(a) op(b) lies in memory: y is [batch, m, n], op(a) [m, k], op(b) [k,
// n].
struct MatmulPlan {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Shape batch;    // the broadcast of both batches
  Shape batch_a;  // leading axes of a
  Shape batch_b;
  [[nodiscard]] Shape result() const;  // batch + [m, n]
};

[[nodiscard]] Array matmul(const MatmulPlan& plan, const Array& a, const Array& b);
// da += dy op(b)^T and db += op(a)^T dy (the transposes of these where the operand is stored
// transposed). Where the place holds no sum yet, its contents do not matter.
void matmul_backward_a(const MatmulPlan& plan, const Array& dy, const Array& b, Array& da,
                       bool holds_sum);
void matmul_backward_b(const MatmulPlan& plan, const Array& dy, const Array& a, Array& db,
                       bool holds_sum);

}  // namespace attune::kernels
