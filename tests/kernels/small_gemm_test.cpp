#include "kernels/small_gemm.h"

#include <cstring>

#include "ops/op_test.h"

namespace attune::kernels::small_gemm_test {

// Rows and columns around the kernel's blocks; n in panels.
struct Extents {
  std::int64_t m, panels, k;
};
const Extents kExtents[] = {{1, 1, 1},  {1, 3, 7},  {1, 8, 32}, {1, 13, 5}, {1, 23, 70},
                            {2, 13, 9}, {5, 12, 4}, {7, 3, 11}, {13, 9, 6}, {3, 4, 0}};

template <class T>
bool same_bits(const T* a, const T* b, std::int64_t n) {
  return n == 0 || std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(T)) == 0;
}

template <class T>
class SmallGemm : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SmallGemm, Types);

// Against a loop in double.
TYPED_TEST(SmallGemm, MultipliesPanels) {
  for (const auto& [m, panels, k] : kExtents) {
    const std::int64_t n = panels * kPanel<TypeParam>;
    const Array a = random_array({m, k}, 1, dtype_of<TypeParam>);
    const Array b = random_array({k, n}, 2, dtype_of<TypeParam>);
    Array c = random_array({m, n}, 3, dtype_of<TypeParam>);
    std::vector<double> expected = c.to_vector();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t p = 0; p < k; ++p)
          expected[static_cast<std::size_t>(i * n + j)] += a.at({i, p}) * b.at({p, j});
      }
    }
    multiply_panels<TypeParam>(m, n, k, {a.data<TypeParam>().data(), k, 1},
                               b.data<TypeParam>().data(), n, c.mutable_data<TypeParam>().data(), n,
                               true);
    expect_near(c, expected, sizeof(TypeParam) == 4 ? 1e-5 : 1e-13);
  }
}

TYPED_TEST(SmallGemm, ARowAloneIsTheRowAmongOthersBitForBit) {
  for (const auto& [m, panels, k] : kExtents) {
    const std::int64_t n = panels * kPanel<TypeParam>;
    const Array a = random_array({m, k}, 1, dtype_of<TypeParam>);
    const Array b = random_array({k, n}, 2, dtype_of<TypeParam>);
    Array all = Array::uninitialized({m, n}, dtype_of<TypeParam>);
    Array one = Array::uninitialized({1, n}, dtype_of<TypeParam>);
    const TypeParam* left = a.data<TypeParam>().data();
    const TypeParam* right = b.data<TypeParam>().data();
    TypeParam* rows = all.mutable_data<TypeParam>().data();
    TypeParam* row = one.mutable_data<TypeParam>().data();
    multiply_panels<TypeParam>(m, n, k, {left, k, 1}, right, n, rows, n, false);
    for (std::int64_t i = 0; i < m; ++i) {
      multiply_panels<TypeParam>(1, n, k, {left + i * k, k, 1}, right, n, row, n, false);
      EXPECT_TRUE(same_bits(row, rows + i * n, n)) << m << " " << panels << " " << k;
    }
  }
}

TYPED_TEST(SmallGemm, ScalesTheRightOperandBitForBitAsPackingDoes) {
  const auto factor = static_cast<TypeParam>(0.17677669529663687);  // 1/sqrt(32)
  for (const auto& [m, panels, k] : kExtents) {
    const std::int64_t n = panels * kPanel<TypeParam>;
    const Array a = random_array({m, k}, 1, dtype_of<TypeParam>);
    const Array b = random_array({k, n}, 2, dtype_of<TypeParam>);
    Array scaled = Array::uninitialized({k, n}, dtype_of<TypeParam>);
    Array expected = Array::uninitialized({m, n}, dtype_of<TypeParam>);
    Array actual = Array::uninitialized({m, n}, dtype_of<TypeParam>);
    const TypeParam* left = a.data<TypeParam>().data();
    const TypeParam* right = b.data<TypeParam>().data();
    pack<TypeParam>(right, n, k, n, factor, nullptr, scaled.mutable_data<TypeParam>().data());
    multiply_panels<TypeParam>(m, n, k, {left, k, 1}, scaled.data<TypeParam>().data(), n,
                               expected.mutable_data<TypeParam>().data(), n, false);
    multiply_scaled_panels<TypeParam>(m, n, k, {left, k, 1}, factor, right, n,
                                      actual.mutable_data<TypeParam>().data(), n);
    EXPECT_TRUE(
        same_bits(actual.data<TypeParam>().data(), expected.data<TypeParam>().data(), m * n))
        << m << " " << panels << " " << k;
  }
}

}  // namespace attune::kernels::small_gemm_test
