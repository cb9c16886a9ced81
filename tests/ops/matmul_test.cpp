#include "attune/ops/matmul.h"

#include <limits>
#include <thread>

#include "attune/ops/arithmetic.h"
#include "ops/op_test.h"

namespace attune::matmul_test {

constexpr Transpose kTransposes[] = {Transpose::no, Transpose::yes};

// A matrix [.., rows, columns], stored the other way round where it is read transposed.
Shape stored(std::vector<std::int64_t> leading, std::int64_t rows, std::int64_t columns,
             Transpose transpose) {
  if (transpose == Transpose::yes) std::swap(rows, columns);
  leading.push_back(rows);
  leading.push_back(columns);
  return Shape(std::span<const std::int64_t>(leading));
}

// The element of a matrix of a batch. The batch of both operands is given by its full leading
// shape.
double element(const std::vector<double>& values, const Shape& shape, const Shape& batch,
               std::int64_t number, std::int64_t row, std::int64_t column, Transpose transpose) {
  if (transpose == Transpose::yes) std::swap(row, column);
  std::int64_t matrix = 0;
  std::int64_t below = 1;
  for (int axis = 1; axis <= batch.rank(); ++axis) {
    const std::int64_t coordinate = number % batch[-axis];
    number /= batch[-axis];
    if (axis + 2 > shape.rank()) continue;
    if (shape[-axis - 2] != 1) matrix += coordinate * below;
    below *= shape[-axis - 2];
  }
  return values[static_cast<std::size_t>((matrix * shape[-2] + row) * shape[-1] + column)];
}

std::vector<double> triple_loop(const Array& a, const Array& b, Transpose transpose_a,
                                Transpose transpose_b, const Shape& batch) {
  const std::vector<double> left = a.to_vector();
  const std::vector<double> right = b.to_vector();
  const std::int64_t m = a.shape()[transpose_a == Transpose::yes ? -1 : -2];
  const std::int64_t k = a.shape()[transpose_a == Transpose::yes ? -2 : -1];
  const std::int64_t n = b.shape()[transpose_b == Transpose::yes ? -2 : -1];
  std::vector<double> result;
  for (std::int64_t number = 0; number < batch.size(); ++number) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += element(left, a.shape(), batch, number, i, l, transpose_a) *
                 element(right, b.shape(), batch, number, l, j, transpose_b);
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

void expect_triple_loop(const Shape& shape_a, const Shape& shape_b, Transpose transpose_a,
                        Transpose transpose_b, const Shape& batch) {
  SCOPED_TRACE(to_string(shape_a) + to_string(shape_b) +
               (transpose_a == Transpose::yes ? " T" : " -") +
               (transpose_b == Transpose::yes ? "T" : "-"));
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array a = random_array(shape_a, 1, dtype);
    const Array b = random_array(shape_b, 2, dtype);
    expect_near(matmul(a, b, transpose_a, transpose_b).value(),
                triple_loop(a, b, transpose_a, transpose_b, batch),
                dtype == DType::float32 ? 2e-6 : 1e-14);
  }
}

TEST(Matmul, EqualsATripleLoopForRowsColumnsAndSquaresOfEachSize) {  // B49
  for (const Transpose ta : kTransposes) {
    for (const Transpose tb : kTransposes) {
      for (std::int64_t n = 1; n <= 9; ++n) {
        expect_triple_loop(stored({}, 1, n, ta), stored({}, n, n, tb), ta, tb, {});
        expect_triple_loop(stored({}, n, n, ta), stored({}, n, 1, tb), ta, tb, {});
        expect_triple_loop(stored({}, 1, n, ta), stored({}, n, 1, tb), ta, tb, {});
        expect_triple_loop(stored({}, n, 1, ta), stored({}, 1, n, tb), ta, tb, {});
        expect_triple_loop(stored({}, n, n, ta), stored({}, n, n, tb), ta, tb, {});
      }
      expect_triple_loop(stored({}, 67, 31, ta), stored({}, 31, 43, tb), ta, tb, {});
    }
  }
}

struct Batches {
  std::vector<std::int64_t> a;
  std::vector<std::int64_t> b;
  Shape both;
};

const Batches kBatches[] = {
    {{}, {}, {}},          {{2}, {2}, {2}},          {{2}, {}, {2}},
    {{}, {2}, {2}},        {{2}, {1}, {2}},          {{1}, {2}, {2}},
    {{2, 1}, {3}, {2, 3}}, {{2, 3}, {3}, {2, 3}},    {{2, 3}, {2, 1}, {2, 3}},
    {{2, 3}, {}, {2, 3}},  {{2, 3}, {1, 1}, {2, 3}}, {{1, 3}, {2, 1}, {2, 3}},
    {{0}, {}, {0}},        {{0}, {1}, {0}},          {{1}, {0}, {0}},
    {{1}, {1, 1}, {1, 1}},
};

TEST(Matmul, EqualsATripleLoopOverBroadcastBatches) {
  for (const Batches& batch : kBatches) {
    for (const Transpose ta : kTransposes) {
      for (const Transpose tb : kTransposes) {
        expect_triple_loop(stored(batch.a, 5, 7, ta), stored(batch.b, 7, 3, tb), ta, tb,
                           batch.both);
      }
    }
  }
}

TEST(Matmul, GradientsMatchOverBroadcastBatches) {
  for (const Batches& batch : kBatches) {
    for (const Transpose ta : kTransposes) {
      for (const Transpose tb : kTransposes) {
        SCOPED_TRACE(to_string(stored(batch.a, 2, 5, ta)) + to_string(stored(batch.b, 5, 3, tb)));
        expect_gradients_match([&](std::span<const Var> x) { return matmul(x[0], x[1], ta, tb); },
                               {random_array(stored(batch.a, 2, 5, ta), 3),
                                random_array(stored(batch.b, 5, 3, tb), 4)});
      }
    }
  }
}

TEST(Matmul, GradientsAddToWhatOtherOperationsLeft) {
  for (const Transpose ta : kTransposes) {
    for (const Transpose tb : kTransposes) {
      expect_gradients_match(
          [&](std::span<const Var> x) {
            // The sums of both places begin before and after the product's share.
            const Var early = matmul(x[0] * 2.0, x[1] * x[1], ta, tb);
            return early + matmul(x[0], x[1], ta, tb) + matmul(x[0], x[1], ta, tb);
          },
          {random_array(stored({2}, 5, 3, ta), 5), random_array(stored({}, 3, 7, tb), 6)});
    }
  }
}

TEST(Matmul, SameOperandTwiceGetsBothGradients) {
  const Array x = random_array({3, 3}, 7);
  expect_gradients_match([](std::span<const Var> v) { return matmul(v[0], v[0]); }, {x});
  expect_gradients_match([](std::span<const Var> v) { return matmul(v[0], v[0], Transpose::yes); },
                         {random_array({2, 3, 5}, 8)});
  expect_gradients_match(
      [](std::span<const Var> v) { return matmul(v[0], v[0], Transpose::no, Transpose::yes); },
      {random_array({2, 3, 5}, 9)});
}

TEST(Matmul, MultipliesAMatrixByItsOwnTranspose) {  // B49
  const Array x = Array::from({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(matmul(x, x, Transpose::yes).value(),
              Array::from({3, 3}, {17, 22, 27, 22, 29, 36, 27, 36, 45}));
}

TEST(Matmul, EmptyInnerExtentGivesZeros) {
  for (const std::int64_t m : {1, 2}) {
    const Array y =
        matmul(Array::zeros({m, 0}, DType::float32), Array::zeros({0, 3}, DType::float32)).value();
    expect_near(y, Array::zeros({m, 3}, DType::float32));
  }
}

TEST(Matmul, GradientsMatchForEmptyExtents) {
  const std::pair<Shape, Shape> shapes[] = {{{2, 0}, {0, 3}}, {{0, 2}, {2, 3}}, {{2, 3}, {3, 0}}};
  for (const auto& [a, b] : shapes) {
    expect_gradients_match([](std::span<const Var> x) { return matmul(x[0], x[1]); },
                           {random_array(a, 10), random_array(b, 11)});
  }
}

TEST(Matmul, OldContentsOfRecycledMemoryDoNotMatter) {  // B02
  for (const std::int64_t m : {1, 4, 64}) {
    { const Array dirty = Array::full({m, 64}, std::nan(""), DType::float32); }
    const Array y =
        matmul(Array::full({m, 8}, 1, DType::float32), Array::full({8, 64}, 1, DType::float32))
            .value();
    expect_near(y, Array::full({m, 64}, 8, DType::float32));
  }
}

TEST(Matmul, ConcurrentProductsEqualTheSequentialOne) {  // B52
  const Array a = random_array({64, 64}, 12, DType::float32);
  const Array b = random_array({64, 64}, 13, DType::float32);
  const std::vector<double> expected = matmul(a, b).value().to_vector();
  int wrong[2] = {};
  const auto work = [&](int thread) {
    for (int i = 0; i < 1000; ++i) {
      if (matmul(a, b).value().to_vector() != expected) ++wrong[thread];
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(wrong[0], 0);
  EXPECT_EQ(wrong[1], 0);
}

TEST(Matmul, NamesShapesThatDoNotFit) {
  const auto fails = [](const Shape& a, const Shape& b, Transpose ta, Transpose tb,
                        const std::string& message) {
    expect_throws<ShapeError>(
        [&] {
          static_cast<void>(
              matmul(Array::zeros(a, DType::float32), Array::zeros(b, DType::float32), ta, tb));
        },
        message);
  };
  constexpr auto kNo = Transpose::no;
  constexpr auto kYes = Transpose::yes;
  fails({2, 8, 16}, {12, 4}, kNo, kNo,
        "matmul: a [2, 8, 16] has 16 columns but b [12, 4] has 12 rows");
  fails({16, 8}, {4, 12}, kYes, kYes,
        "matmul: a [16, 8] transposed has 16 columns but b [4, 12] transposed has 12 rows");
  fails({3}, {3, 4}, kNo, kNo, "matmul: a [3] has rank 1, expected 2 or more");
  fails({3, 4}, {}, kNo, kNo, "matmul: b [] has rank 0, expected 2 or more");
  fails({2, 3, 4}, {5, 4, 6}, kNo, kNo,
        "matmul: the leading axes of a [2, 3, 4] and b [5, 4, 6] do not broadcast");
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(
            matmul(Array::zeros({2, 3}, DType::float32), Array::zeros({3, 2}, DType::float64)));
      },
      "matmul: operands are float32 [2, 3] and float64 [3, 2], expected one dtype");
}

const Shape kInputs[] = {{5}, {1, 5}, {3, 5}, {2, 3, 5}, {0, 5}, {2, 0, 5}};

Shape rows_of(const Shape& x) { return Shape{x.rows(), x.last()}; }

TEST(Linear, EqualsATripleLoopPlusBias) {
  for (const Shape& shape : kInputs) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      SCOPED_TRACE(to_string(shape));
      const Array x = random_array(shape, 1, dtype);
      const Array weight = random_array({7, 5}, 2, dtype);
      const Array bias = random_array({7}, 3, dtype);
      std::vector<double> expected =
          triple_loop(x.reshaped(rows_of(shape)), weight, Transpose::no, Transpose::yes, {});
      const double tolerance = dtype == DType::float32 ? 2e-6 : 1e-14;
      EXPECT_EQ(linear(x, weight).shape(), shape.with(-1, 7));
      expect_near(linear(x, weight).value(), expected, tolerance);
      const std::vector<double> shift = bias.to_vector();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += shift[i % 7];
      expect_near(linear(x, weight, bias).value(), expected, tolerance);
    }
  }
}

TEST(Linear, GradientsMatch) {
  const Array weight = random_array({7, 5}, 5);
  const Array bias = random_array({7}, 6);
  for (const Shape& shape : kInputs) {
    SCOPED_TRACE(to_string(shape));
    const Array x = random_array(shape, 4);
    expect_gradients_match([](std::span<const Var> v) { return linear(v[0], v[1]); }, {x, weight});
    expect_gradients_match([](std::span<const Var> v) { return linear(v[0], v[1], v[2]); },
                           {x, weight, bias});
  }
}

TEST(Linear, GradientsMatchWhereOthersAreConstant) {
  const Array x = random_array({3, 5}, 7);
  const Array weight = random_array({7, 5}, 8);
  const Array bias = random_array({7}, 9);
  expect_gradients_match([&](std::span<const Var> v) { return linear(v[0], weight, bias); }, {x});
  expect_gradients_match([&](std::span<const Var> v) { return linear(x, v[0], bias); }, {weight});
  expect_gradients_match([&](std::span<const Var> v) { return linear(x, weight, v[0]); }, {bias});
}

TEST(Linear, TiedWeightCollectsFromBothUses) {
  expect_gradients_match(
      [](std::span<const Var> v) {
        return linear(linear(v[0], v[1], v[2]) * 0.5, v[1], v[2]) + v[0];
      },
      {random_array({3, 5}, 10), random_array({5, 5}, 11), random_array({5}, 12)});
}

TEST(Linear, NamesShapesThatDoNotFit) {
  const auto fails = [](const Shape& x, const Shape& weight, const Shape& bias,
                        const std::string& message) {
    expect_throws<ShapeError>(
        [&] {
          static_cast<void>(linear(Array::zeros(x, DType::float32),
                                   Array::zeros(weight, DType::float32),
                                   Array::zeros(bias, DType::float32)));
        },
        message);
  };
  fails({2, 3}, {4, 5}, {4}, "linear: x [2, 3] has 3 columns but weight [4, 5] takes 5");
  fails({}, {4, 1}, {4}, "linear: x [] is a scalar, expected [..., 1] for weight [4, 1]");
  fails({2, 3}, {3}, {4}, "linear: weight [3] has rank 1, expected [out, in]");
  fails({2, 5}, {4, 5}, {5}, "linear: bias [5], expected [4] for weight [4, 5]");
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(linear(Array::zeros({2, 5}, DType::float32),
                                 Array::zeros({4, 5}, DType::float32),
                                 Array::zeros({4}, DType::float64)));
      },
      "linear: operands are float32 [2, 5] and float64 [4], expected one dtype");
}

}  // namespace attune::matmul_test
