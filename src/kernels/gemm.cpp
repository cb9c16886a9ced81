#include "kernels/gemm.h"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attune/core/error.h"

namespace attune::kernels {
namespace {

// OpenBLAS with threads of its own beside ours is 4 to 12 times slower; shards are our parallelism.
void use_one_blas_thread() {
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

blasint blas_int(std::int64_t extent) {
  if (extent > std::numeric_limits<blasint>::max()) {
    throw ShapeError(fmt::format("matrix product: extent {} is beyond the {} that BLAS can address",
                                 extent, std::numeric_limits<blasint>::max()));
  }
  return static_cast<blasint>(extent);
}

CBLAS_TRANSPOSE blas_transpose(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

void blas_gemm(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
               blasint k, float alpha, const float* a, blasint lda, const float* b, blasint ldb,
               float beta, float* c, blasint ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
}
void blas_gemm(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, blasint m, blasint n,
               blasint k, double alpha, const double* a, blasint lda, const double* b, blasint ldb,
               double beta, double* c, blasint ldc) {
  cblas_dgemm(CblasRowMajor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
}

// y += alpha op(matrix) x
void blas_gemv(CBLAS_TRANSPOSE transpose, blasint rows, blasint columns, float alpha,
               const float* matrix, blasint ld, const float* x, blasint x_step, float* y) {
  cblas_sgemv(CblasRowMajor, transpose, rows, columns, alpha, matrix, ld, x, x_step, 1, y, 1);
}
void blas_gemv(CBLAS_TRANSPOSE transpose, blasint rows, blasint columns, double alpha,
               const double* matrix, blasint ld, const double* x, blasint x_step, double* y) {
  cblas_dgemv(CblasRowMajor, transpose, rows, columns, alpha, matrix, ld, x, x_step, 1, y, 1);
}

template <class T>
void scale_rows(std::int64_t m, std::int64_t n, T beta, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (beta == 0) {
      std::fill(row, row + n, T{0});
    } else if (beta != 1) {
      for (std::int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  }
}

}  // namespace

template <std::floating_point T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
          std::int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    scale_rows(m, n, beta, c, ldc);
    return;
  }
  use_one_blas_thread();
  const blasint stride_a = blas_int(lda);
  const blasint stride_b = blas_int(ldb);
  if (m == 1) {
    // One row, as in decoding: c^T = op(b)^T a^T. Whether gemv's beta = 0 clears NaN differs
    // between versions, so c is scaled here.
    scale_rows(m, n, beta, c, ldc);
    const std::int64_t rows = transpose_b ? n : k;
    const std::int64_t columns = transpose_b ? k : n;
    blas_gemv(blas_transpose(!transpose_b), blas_int(rows), blas_int(columns), alpha, b, stride_b,
              a, transpose_a ? stride_a : 1, c);
    return;
  }
  blas_gemm(blas_transpose(transpose_a), blas_transpose(transpose_b), blas_int(m), blas_int(n),
            blas_int(k), alpha, a, stride_a, b, stride_b, beta, c, blas_int(ldc));
}

template void gemm<float>(bool, bool, std::int64_t, std::int64_t, std::int64_t, float, const float*,
                          std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
template void gemm<double>(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                           const double*, std::int64_t, const double*, std::int64_t, double,
                           double*, std::int64_t);

std::string blas_kernel() { return openblas_get_corename(); }

std::string blas_configuration() { return openblas_get_config(); }

}  // namespace attune::kernels
