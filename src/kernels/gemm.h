#pragma once

#include <concepts>
#include <cstdint>
#include <string>

namespace attune::kernels {

// c = alpha op(a) op(b) + beta c over row-major matrices: op(a) is [m, k], op(b) [k, n], c [m, n],
// and op transposes where its flag is set (a is then stored as [k, m], b as [n, k]). lda, ldb and
// ldc are the distances of stored rows, so a head or a column range of a larger matrix is addressed
// without a copy.
//
// With beta = 0 the old contents of c do not matter, NaN included. Any extent may be 0; k = 0
// leaves beta c. c must not overlap a or b. Runs on the calling thread alone and may be called from
// several threads at once: OpenBLAS is set to one thread, for the whole process, before the first
// product.
template <std::floating_point T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
          std::int64_t ldc);

// The name of the kernel that BLAS chose for this processor ("Zen", "Haswell"): another one rounds
// differently.
[[nodiscard]] std::string blas_kernel();
// Version and build options of BLAS, one line.
[[nodiscard]] std::string blas_configuration();

}  // namespace attune::kernels
