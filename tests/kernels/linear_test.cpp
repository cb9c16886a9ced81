#include "kernels/linear.h"

#include <array>
#include <vector>

#include "ops/op_test.h"

namespace attune::kernels::linear_test {

// Rows, in, out: widths that go through panels and such that go through BLAS, odd ones, single rows
// and none.
constexpr std::array<std::int64_t, 3> kExtents[] = {
    {1, 8, 16},  {2, 8, 16},    {7, 16, 8},   {5, 64, 256}, {9, 256, 64}, {6, 64, 264},
    {3, 72, 80}, {4, 128, 128}, {4, 12, 20},  {5, 7, 9},    {4, 65, 64},  {0, 8, 8},
    {3, 0, 8},   {3, 8, 0},     {33, 32, 32}, {13, 24, 40}};

// a [m, k] b [k, n] in double, from any strides.
std::vector<double> product(std::int64_t m, std::int64_t n, std::int64_t k,
                            const std::vector<double>& a, std::array<std::int64_t, 2> a_strides,
                            const std::vector<double>& b, std::array<std::int64_t, 2> b_strides) {
  std::vector<double> c(static_cast<std::size_t>(m * n), 0);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        c[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * a_strides[0] + p * a_strides[1])] *
            b[static_cast<std::size_t>(p * b_strides[0] + j * b_strides[1])];
  return c;
}

double tolerance(DType dtype) { return dtype == DType::float32 ? 2e-5 : 1e-13; }

TEST(Linear, EqualsANaiveProductWithAndWithoutBias) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const auto& [rows, in, out] : kExtents) {
      SCOPED_TRACE(testing::Message() << rows << ", " << in << ", " << out);
      const Array x = random_array({rows, in}, 1, dtype),
                  weight = random_array({out, in}, 2, dtype);
      const Array bias = random_array({out}, 3, dtype);
      std::vector<double> y =
          product(rows, out, in, x.to_vector(), {in, 1}, weight.to_vector(), {1, in});
      expect_near(linear(x, weight, {}), y, tolerance(dtype));
      for (std::size_t i = 0; i < y.size(); ++i)
        y[i] += bias.to_vector()[i % static_cast<std::size_t>(out)];
      expect_near(linear(x, weight, bias), y, tolerance(dtype));
    }
  }
}

// Into a place that holds junk, then on top of what is there.
TEST(Linear, GradientsEqualNaiveProductsAndAddUp) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const auto& [rows, in, out] : kExtents) {
      SCOPED_TRACE(testing::Message() << rows << ", " << in << ", " << out);
      const Array x = random_array({rows, in}, 1, dtype),
                  weight = random_array({out, in}, 2, dtype);
      const Array dy = random_array({rows, out}, 3, dtype);
      const auto check = [&](const Shape& shape, std::vector<double> expected, auto backward) {
        Array place = Array::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype);
        backward(place, false);
        expect_near(place, expected, tolerance(dtype));
        backward(place, true);
        for (double& value : expected) value *= 2;
        expect_near(place, expected, 2 * tolerance(dtype));
      };
      check({rows, in},
            product(rows, in, out, dy.to_vector(), {out, 1}, weight.to_vector(), {in, 1}),
            [&](Array& dx, bool holds_sum) { linear_backward_x(dy, weight, dx, holds_sum); });
      check({out, in}, product(out, in, rows, dy.to_vector(), {1, out}, x.to_vector(), {in, 1}),
            [&](Array& dw, bool holds_sum) { linear_backward_weight(dy, x, dw, holds_sum); });
    }
  }
}

// Of two rows and more.
TEST(Linear, ARowIsBitwiseTheSameAmongOthers) {
  const Array weight = random_array({128, 64}, 2, DType::float32);
  const Array x = random_array({40, 64}, 1, DType::float32);
  const std::vector<double> whole = linear(x, weight, {}).to_vector();
  for (const std::int64_t rows : {2, 5, 17, 39}) {
    std::vector<double> first = x.to_vector();
    first.resize(static_cast<std::size_t>(rows * 64));
    const std::vector<double> part =
        linear(Array::from({rows, 64}, first, DType::float32), weight, {}).to_vector();
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << rows;
  }
}

}  // namespace attune::kernels::linear_test
