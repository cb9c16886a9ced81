#include "kernels/gemm.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/random.h"

namespace attune::kernels::gemm_test {

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t seed) {
  const RandomStream stream = Randomness{.seed = seed}.stream("gemm_test");
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(2 * stream.uniform(i) - 1);
  }
  return values;
}

struct Product {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  double alpha, beta;
};

// Every matrix is a range of columns of one that is 3 wider; what lies outside must not be touched.
template <class T>
void expect_triple_loop(const Product& p) {
  SCOPED_TRACE(testing::Message() << p.transpose_a << p.transpose_b << " " << p.m << "x" << p.n
                                  << "x" << p.k << " alpha " << p.alpha << " beta " << p.beta);
  const std::int64_t lda = (p.transpose_a ? p.m : p.k) + 3;
  const std::int64_t ldb = (p.transpose_b ? p.k : p.n) + 3;
  const std::int64_t ldc = p.n + 3;
  const auto a = random_values<T>((p.transpose_a ? p.k : p.m) * lda, 1);
  const auto b = random_values<T>((p.transpose_b ? p.n : p.k) * ldb, 2);
  auto c = random_values<T>(p.m * ldc, 3);
  std::vector<double> expected(c.begin(), c.end());
  const auto get = [](const std::vector<T>& x, std::int64_t i) {
    return static_cast<double>(x[static_cast<std::size_t>(i)]);
  };
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        sum += get(a, p.transpose_a ? l * lda + i : i * lda + l) *
               get(b, p.transpose_b ? j * ldb + l : l * ldb + j);
      }
      double& element = expected[static_cast<std::size_t>(i * ldc + j)];
      element = p.alpha * sum + p.beta * element;
      // With beta = 0 what was there does not matter.
      if (p.beta == 0) c[static_cast<std::size_t>(i * ldc + j)] = static_cast<T>(std::nan(""));
    }
  }
  gemm<T>(p.transpose_a, p.transpose_b, p.m, p.n, p.k, static_cast<T>(p.alpha), a.data(), lda,
          b.data(), ldb, static_cast<T>(p.beta), c.data(), ldc);
  for (std::size_t i = 0; i < c.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(c[i]), expected[i], sizeof(T) == 4 ? 1e-5 : 1e-13)
        << "at " << i;
  }
}

TEST(Gemm, EqualsATripleLoopForAllFlagsStridesAndFactors) {  // B02, B49
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const double beta : {0.0, 1.0, -0.5}) {
        for (const std::int64_t m : {0, 1, 2, 13}) {
          for (const std::int64_t n : {0, 1, 5, 37}) {
            for (const std::int64_t k : {0, 1, 7, 41}) {
              const Product product{transpose_a, transpose_b, m, n, k, 0.75, beta};
              expect_triple_loop<float>(product);
              expect_triple_loop<double>(product);
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, ClearsNaNInLargeResults) {
  expect_triple_loop<float>({false, true, 131, 67, 64, 1, 0});
  expect_triple_loop<double>({true, false, 131, 67, 64, 1, 0});
}

}  // namespace attune::kernels::gemm_test
