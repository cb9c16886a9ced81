#include "attune/ops/columns.h"

#include "ops/op_test.h"

namespace attune::columns_test {

// Columns in [0, n) of every pair, [batch, heads, query, key], drawn evenly.
Columns random_columns(const Shape& shape, std::uint32_t n, std::uint64_t seed) {
  RandomCursor cursor(Randomness{.seed = seed}.stream("columns_test"), 0);
  Columns columns{shape, {}};
  for (std::int64_t i = 0; i < shape.size(); ++i)
    columns.values.push_back(static_cast<std::int32_t>(cursor.below(n)));
  return columns;
}

// The column of one pair, where extents of 1 repeat.
std::int64_t column_of(const Columns& columns, std::int64_t b, std::int64_t h, std::int64_t i,
                       std::int64_t j) {
  const Shape& shape = columns.shape;
  const std::int64_t plane = (shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : h);
  return columns.values[static_cast<std::size_t>((plane * shape[2] + i) * shape[3] + j)];
}

constexpr std::int64_t kBatch = 2, kHeads = 3, kQuery = 5, kKey = 7, kColumns = 4;
const Shape kRepeated[] = {{1, 1, kQuery, kKey},
                           {kBatch, 1, kQuery, kKey},
                           {1, kHeads, kQuery, kKey},
                           {kBatch, kHeads, kQuery, kKey}};

TEST(Columns, AreTakenAndSummedAsTheLoopsDo) {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Shape& shape : kRepeated) {
      SCOPED_TRACE(to_string(shape));
      const Columns columns = random_columns(shape, kColumns, 1);
      const Array x = random_array({kBatch, kHeads, kQuery, kColumns}, 2, dtype);
      const Array w = random_array({kBatch, kHeads, kQuery, kKey}, 3, dtype);
      std::vector<double> taken, summed;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        for (std::int64_t h = 0; h < kHeads; ++h) {
          for (std::int64_t i = 0; i < kQuery; ++i) {
            std::vector<double> sums(kColumns, 0);
            for (std::int64_t j = 0; j < kKey; ++j) {
              const std::int64_t c = column_of(columns, b, h, i, j);
              taken.push_back(x.at({b, h, i, c}));
              sums[static_cast<std::size_t>(c)] += w.at({b, h, i, j});
            }
            summed.insert(summed.end(), sums.begin(), sums.end());
          }
        }
      }
      expect_near(take_columns(x, columns).value(), taken, 0);
      expect_near(sum_columns(w, columns, kColumns).value(), summed, 1e-6);
    }
  }
}

TEST(Columns, GradientsMatchOverRepeatedExtents) {
  for (const Shape& shape : kRepeated) {
    SCOPED_TRACE(to_string(shape));
    const Columns columns = random_columns(shape, kColumns, 1);
    expect_gradients_match([&](std::span<const Var> x) { return take_columns(x[0], columns); },
                           {random_array({kBatch, kHeads, kQuery, kColumns}, 2)});
    expect_gradients_match(
        [&](std::span<const Var> x) { return sum_columns(x[0], columns, kColumns); },
        {random_array({kBatch, kHeads, kQuery, kKey}, 3)});
  }
}

TEST(Columns, NoKeysAndOneAreServed) {
  const Columns none{{1, 1, 2, 0}, {}};
  EXPECT_EQ(take_columns(Array::zeros({1, 1, 2, 3}, DType::float64), none).shape(),
            (Shape{1, 1, 2, 0}));
  expect_near(sum_columns(Array::zeros({1, 1, 2, 0}, DType::float64), none, 2).value(),
              {0, 0, 0, 0}, 0);
  const Columns one{{1, 1, 1, 1}, {1}};
  expect_near(sum_columns(Array::full({1, 1, 1, 1}, 5, DType::float64), one, 2).value(), {0, 5}, 0);
}

TEST(Columns, WhatDoesNotFitIsNamed) {
  const Array x = Array::zeros({1, 1, 2, 3}, DType::float64);
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(take_columns(x, {{2, 1, 2, 1}, {0, 0, 0, 0}}));
      },
      "take_columns: 4 columns [2, 1, 2, 1] do not fit x [1, 1, 2, 3], expected "
      "[1 or batch, 1 or heads, query, key]");
  expect_throws<ValueError>(
      [&] {
        static_cast<void>(take_columns(x, {{1, 1, 2, 1}, {0, 3}}));
      },
      "take_columns: column 3 is outside [0, 3)");
  expect_throws<ValueError>(
      [&] {
        static_cast<void>(sum_columns(x, {{1, 1, 2, 3}, {0, 1, -1, 0, 0, 0}}, 2));
      },
      "sum_columns: column -1 is outside [0, 2)");
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(sum_columns(x, {{1, 1, 2, 1}, {0, 0}}, 2));
      },
      "sum_columns: columns [1, 1, 2, 1] do not fit x [1, 1, 2, 3], keys "
      "differ");
}

}  // namespace attune::columns_test
