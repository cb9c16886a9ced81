#include "kernels/matmul.h"

#include <algorithm>
#include <array>

#include "kernels/broadcast.h"
#include "kernels/gemm.h"
#include "kernels/shaping.h"

namespace attune::kernels {
namespace {

// One matrix b shared by all rows of a and y: the whole batch is one tall product.
bool folds(const MatmulPlan& plan) { return !plan.transpose_a && plan.batch_b.size() == 1; }

// BLAS wants a distance of rows of at least 1.
std::int64_t row_distance(std::int64_t columns) { return std::max<std::int64_t>(columns, 1); }
std::int64_t row_distance(const Array& matrices) { return row_distance(matrices.shape().last()); }

// Calls visit(a, b, y, rows) for each product with the first elements of its matrices and its rows
// of op(a).
template <class F>
void for_each_product(const MatmulPlan& plan, F visit) {
  if (plan.batch.size() == 0) return;
  if (folds(plan)) {
    visit(std::int64_t{0}, std::int64_t{0}, std::int64_t{0}, plan.batch.size() * plan.m);
    return;
  }
  const auto steps = plan_broadcast<2>(plan.batch, {&plan.batch_a, &plan.batch_b});
  std::int64_t y = 0;
  walk(steps, steps.rank, [&](const std::array<std::int64_t, 2>& matrix) {
    visit(matrix[0] * plan.m * plan.k, matrix[1] * plan.k * plan.n, y, plan.m);
    y += plan.m * plan.n;
  });
}

// What to multiply the contents of a gradient's place by. An operand that was broadcast collects
// from several products, which must all add, or from none.
double prepare(Array& place, bool holds_sum, const Shape& own_batch, const MatmulPlan& plan) {
  if (holds_sum) return 1;
  if (own_batch.size() == plan.batch.size()) return 0;
  fill_zero(place);
  return 1;
}

}  // namespace

Shape MatmulPlan::result() const {
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  auto* end = std::copy(batch.begin(), batch.end(), extents.data());
  *end++ = m;
  *end++ = n;
  return Shape(std::span<const std::int64_t>(extents.data(), end));
}

Array matmul(const MatmulPlan& plan, const Array& a, const Array& b) {
  Array y = Array::uninitialized(plan.result(), a.dtype());
  dispatch(a.dtype(), [&]<class T>() {
    const T* left = a.data<T>().data();
    const T* right = b.data<T>().data();
    T* to = y.mutable_data<T>().data();
    for_each_product(plan, [&](std::int64_t i, std::int64_t j, std::int64_t at, std::int64_t rows) {
      gemm<T>(plan.transpose_a, plan.transpose_b, rows, plan.n, plan.k, 1, left + i,
              row_distance(a), right + j, row_distance(b), 0, to + at, row_distance(y));
    });
  });
  return y;
}

// a as [m, k]: da = dy op(b)^T. a as [k, m]: da = op(b) dy^T.
void matmul_backward_a(const MatmulPlan& plan, const Array& dy, const Array& b, Array& da,
                       bool holds_sum) {
  const double beta = prepare(da, holds_sum, plan.batch_a, plan);
  dispatch(dy.dtype(), [&]<class T>() {
    const T* gradient = dy.data<T>().data();
    const T* right = b.data<T>().data();
    T* to = da.mutable_data<T>().data();
    for_each_product(plan, [&](std::int64_t i, std::int64_t j, std::int64_t at, std::int64_t rows) {
      if (plan.transpose_a) {
        gemm<T>(plan.transpose_b, true, plan.k, plan.m, plan.n, 1, right + j, row_distance(b),
                gradient + at, row_distance(dy), static_cast<T>(beta), to + i, row_distance(da));
      } else {
        gemm<T>(false, !plan.transpose_b, rows, plan.k, plan.n, 1, gradient + at, row_distance(dy),
                right + j, row_distance(b), static_cast<T>(beta), to + i, row_distance(da));
      }
    });
  });
}

// b as [k, n]: db = op(a)^T dy. b as [n, k]: db = dy^T op(a).
void matmul_backward_b(const MatmulPlan& plan, const Array& dy, const Array& a, Array& db,
                       bool holds_sum) {
  const bool one_product = folds(plan) && plan.batch.size() > 0;
  const double beta =
      one_product ? (holds_sum ? 1 : 0) : prepare(db, holds_sum, plan.batch_b, plan);
  dispatch(dy.dtype(), [&]<class T>() {
    const T* gradient = dy.data<T>().data();
    const T* left = a.data<T>().data();
    T* to = db.mutable_data<T>().data();
    for_each_product(plan, [&](std::int64_t i, std::int64_t j, std::int64_t at, std::int64_t rows) {
      if (plan.transpose_b) {
        gemm<T>(true, plan.transpose_a, plan.n, plan.k, rows, 1, gradient + at, row_distance(dy),
                left + i, row_distance(a), static_cast<T>(beta), to + j, row_distance(db));
      } else {
        gemm<T>(!plan.transpose_a, false, plan.k, plan.n, rows, 1, left + i, row_distance(a),
                gradient + at, row_distance(dy), static_cast<T>(beta), to + j, row_distance(db));
      }
    });
  });
}

}  // namespace attune::kernels
