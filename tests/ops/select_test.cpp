#include "attune/ops/select.h"

#include <limits>

#include "attune/ops/arithmetic.h"
#include "attune/ops/unary.h"
#include "ops/op_test.h"

namespace attune::select_test {

// 1 where x > threshold, else 0.
Array greater(const Array& x, double threshold) {
  std::vector<double> result;
  for (const double value : x.to_vector()) result.push_back(value > threshold ? 1 : 0);
  return Array::from(x.shape(), result, x.dtype());
}

TEST(Where, SelectsElementByElement) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array condition = Array::from({5}, {1, 0, -2, std::nan(""), -0.0}, dtype);
    const Array a = Array::from({5}, {1, 2, 3, 4, 5}, dtype);
    const Array b = Array::from({5}, {-1, -2, -3, -4, -5}, dtype);
    expect_near(where(condition, a, b).value(), {1, -2, 3, 4, -5});
  }
}

TEST(Where, BroadcastsAllThree) {
  const Array condition = Array::from({3, 1}, {1, 0, 1});
  const Array a = Array::from({2}, {1, 2});
  const Array b = Array::from({}, {9});
  expect_near(where(condition, a, b).value(), Array::from({3, 2}, {1, 2, 9, 9, 1, 2}));
  // A condition that is larger than both operands.
  expect_near(where(Array::from({2, 2}, {1, 0, 0, 1}), b, Array::from({1}, {7})).value(),
              Array::from({2, 2}, {9, 7, 7, 9}));
}

TEST(Where, GradientsMatchOverBroadcasts) {
  const Shape shapes[] = {{2, 3, 5}, {3, 5}, {5}, {3, 1}, {2, 1, 1}, {}, {1}};
  for (const Shape& c : shapes) {
    for (const Shape& a : shapes) {
      for (const Shape& b : shapes) {
        SCOPED_TRACE(to_string(c) + to_string(a) + to_string(b));
        const Array condition = greater(random_array(c, 1), 0);
        expect_gradients_match([&](std::span<const Var> x) { return where(condition, x[0], x[1]); },
                               {random_array(a, 2), random_array(b, 3)});
      }
    }
  }
}

TEST(Where, GradientsMatchForSizeZeroAndTheSameOperandTwice) {
  const Array none = Array::zeros({0, 3}, DType::float64);
  expect_gradients_match([&](std::span<const Var> x) { return where(none, x[0], x[1]); },
                         {none, random_array({3}, 4)});
  const Array condition = Array::from({3}, {1, 0, 1}, DType::float64);
  expect_gradients_match([&](std::span<const Var> x) { return where(condition, x[0], x[0]); },
                         {random_array({3}, 5)});
}

TEST(Where, BranchNotTakenGivesNoNaN) {  // B25
  const auto gradient = [](const Array& condition, const Array& x, auto taken, auto other) {
    return gradients_of(
        [&](std::span<const Var> v) { return where(condition, taken(v[0]), other(v[0])); }, {x})[0];
  };
  const auto identity = [](const Var& v) { return v; };
  for (const DType dtype : {DType::float32, DType::float64}) {
    // where(x > 0, sqrt x, x) at x < 0
    const Array negative = Array::from({2}, {-1, -4}, dtype);
    expect_near(gradient(
                    greater(negative, 0), negative, [](const Var& v) { return sqrt(v); }, identity),
                {1, 1});
    // where(x == 0, 0, x sqrt x) at x = 0
    const Array zero = Array::from({1}, {0}, dtype);
    expect_near(gradient(
                    Array::from({1}, {1}, dtype), zero, [](const Var& v) { return v * 0.0; },
                    [](const Var& v) { return v * sqrt(v); }),
                {0});
    // where(a <= 0, e^a, 1 + a) where e^a overflows
    const Array large = Array::from({1}, {dtype == DType::float32 ? 100.0 : 1000.0}, dtype);
    expect_near(gradient(
                    Array::from({1}, {0}, dtype), large, [](const Var& v) { return exp(v); },
                    [](const Var& v) { return v + 1.0; }),
                {1});
    // The same with the singular operations one by one.
    for (const auto singular :
         {static_cast<Var (*)(const Var&)>(log), static_cast<Var (*)(const Var&)>(sqrt)}) {
      expect_near(gradient(Array::from({1}, {0}, dtype), zero, singular, identity), {1});
    }
    expect_near(gradient(
                    Array::from({1}, {0}, dtype), zero, [](const Var& v) { return power(v, -0.5); },
                    identity),
                {1});
    expect_near(gradient(
                    Array::from({1}, {0}, dtype), zero,
                    [](const Var& v) { return Var(Array::full({1}, 1, v.dtype())) / v; }, identity),
                {1});
  }
}

TEST(Where, EntropyOfAZeroWeightIsFiniteWithItsGradient) {  // B25
  // -sum p ln p of [.5, .5, 0] and its gradient -(ln p + 1), 0 where p = 0
  const Array p = Array::from({3}, {0.5, 0.5, 0}, DType::float64);
  Array value;
  const auto gradients = gradients_of(
      [&](std::span<const Var> x) {
        const Var y = where(greater(p, 0), -(x[0] * log(x[0])), Array::scalar(0, DType::float64));
        value = y.value();
        return y;
      },
      {p});
  const std::vector<double> terms = value.to_vector();
  EXPECT_NEAR(terms[0] + terms[1] + terms[2], 0.693147180559945, 1e-12);
  expect_near(gradients[0], {-0.306852819440055, -0.306852819440055, 0}, 1e-12);
}

TEST(Where, NamesShapesAndDtypesThatDoNotFit) {
  const Array two = Array::zeros({2}, DType::float32);
  const Array three = Array::zeros({3}, DType::float32);
  expect_throws<ShapeError>([&] { static_cast<void>(where(two, two, three)); },
                            "where: [2] and [3] do not broadcast");
  expect_throws<ShapeError>([&] { static_cast<void>(where(three, two, two)); },
                            "where: [3] and [2] do not broadcast");
  const Array wide = Array::zeros({2}, DType::float64);
  expect_throws<ShapeError>([&] { static_cast<void>(where(two, two, wide)); },
                            "where: operands are float32 [2] and float64 [2], expected one dtype");
  expect_throws<ShapeError>([&] { static_cast<void>(where(wide, two, two)); },
                            "where: operands are float64 [2] and float32 [2], expected one dtype");
}

using Indices = std::vector<std::int32_t>;

TEST(GatherRows, PicksRows) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array table = Array::from({3, 2}, std::vector<double>{0, 1, 10, 11, 20, 21}, dtype);
    expect_near(gather_rows(table, Indices{2, 0, 2, 1}, {2, 2}).value(),
                Array::from({2, 2, 2}, {20, 21, 0, 1, 20, 21, 10, 11}));
  }
}

TEST(GatherRows, TakesTablesOfAnyRank) {
  const Array vector = Array::from({3}, {5, 6, 7});
  expect_near(gather_rows(vector, Indices{2, 2, 0}, {3}).value(), Array::from({3}, {7, 7, 5}));
  expect_near(gather_rows(vector, Indices{1}, {}).value(), Array::from({}, {6}));
  const Array cube = Array::from({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(gather_rows(cube, Indices{1}, {1}).value(), Array::from({1, 1, 3}, {4, 5, 6}));
  EXPECT_EQ(gather_rows(cube, Indices{}, {2, 0}).shape(), (Shape{2, 0, 1, 3}));
}

TEST(GatherRows, GradientsOfRepeatedIndicesAddUp) {  // B31
  const auto gradients = gradients_of(
      [](std::span<const Var> x) {
        return gather_rows(x[0], Indices{2, 0, 2, 2}, {4});
      },
      {Array::zeros({3, 2}, DType::float32)}, Array::from({4, 2}, {1, 1, 2, 2, 3, 3, 4, 4}));
  expect_near(gradients[0], Array::from({3, 2}, {2, 2, 0, 0, 8, 8}));
}

TEST(GatherRows, GradientsMatch) {
  for (const Shape& table : {Shape{5}, Shape{5, 3}, Shape{5, 2, 3}, Shape{5, 0}}) {
    SCOPED_TRACE(to_string(table));
    expect_gradients_match(
        [](std::span<const Var> x) {
          return gather_rows(x[0], Indices{4, 1, 4, 0, 1, 1}, {2, 3});
        },
        {random_array(table, 6)});
    expect_gradients_match([](std::span<const Var> x) { return gather_rows(x[0], Indices{}, {0}); },
                           {random_array(table, 7)});
  }
}

TEST(GatherRows, TableUsedTwiceCollectsFromBoth) {
  expect_gradients_match(
      [](std::span<const Var> x) {
        const Var rows = gather_rows(x[0], Indices{1, 1}, {2});
        return rows * gather_rows(x[0] * x[0], Indices{0, 1}, {2}) +
               gather_rows(x[0], Indices{2, 1}, {2});
      },
      {random_array({3, 5}, 8)});
}

TEST(GatherRows, NamesIndexAndPlaceOutsideTheTable) {  // B31
  const Array table = Array::zeros({3, 2}, DType::float32);
  expect_throws<ValueError>(
      [&] {
        static_cast<void>(gather_rows(table, Indices{0, -1}, {2}));
      },
      "gather_rows: index -1 at place 1 is outside [0, 3), the rows of the table [3, 2]");
  expect_throws<ValueError>(
      [&] { static_cast<void>(gather_rows(table, Indices{3}, {1})); },
      "gather_rows: index 3 at place 0 is outside [0, 3), the rows of the table [3, 2]");
  expect_throws<ShapeError>([&] { static_cast<void>(gather_rows(table, Indices{0}, {2})); },
                            "gather_rows: 1 indices for the shape [2], expected 2");
  expect_throws<ShapeError>(
      [] { static_cast<void>(gather_rows(Array::scalar(1, DType::float32), Indices{0}, {1})); },
      "gather_rows: table [] is a scalar, expected [rows, ...]");
}

// --- embedding ---

// Bit for bit: the pass rounds the product and the sum.
TEST(Embedding, EqualsItsComposition) {
  const Indices indices{2, 0, 2, 1, 4, 2};
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const double scale : {1.0, 1.7}) {
      for (const Shape& added : {Shape{7}, Shape{3, 7}, Shape{1, 3, 7}, Shape{2, 3, 7}}) {
        const std::vector<Array> x = {random_array({5, 7}, 1, dtype),
                                      random_array(added, 2, dtype)};
        const auto fused = [&](std::span<const Var> in) {
          return embedding(in[0], indices, {2, 3}, scale, in[1]);
        };
        const auto composed = [&](std::span<const Var> in) {
          return gather_rows(in[0], indices, {2, 3}) * scale + in[1];
        };
        const std::vector<Var> constants(x.begin(), x.end());
        EXPECT_EQ(fused(constants).value().to_vector(), composed(constants).value().to_vector());
        const Array seed = random_array({2, 3, 7}, 3, dtype);
        const auto got = gradients_of(fused, x, seed), expected = gradients_of(composed, x, seed);
        for (std::size_t i = 0; i < 2; ++i)
          EXPECT_EQ(got[i].to_vector(), expected[i].to_vector()) << i << " scale " << scale;
      }
    }
  }
}

TEST(Embedding, AddsNothingWhereNothingIsGiven) {
  const Array table = random_array({4, 3}, 1);
  const Indices indices{3, 3, 0};
  expect_near(embedding(table, indices, {3}, 1, {}).value(),
              gather_rows(table, indices, {3}).value(), 0);
  expect_near(embedding(table, indices, {3}, 2, {}).value(),
              (gather_rows(table, indices, {3}) * 2).value(), 0);
  EXPECT_EQ(embedding(table, Indices{}, {0, 2}, 2, {}).shape(), (Shape{0, 2, 3}));
}

TEST(Embedding, GradientsMatchFiniteDifferences) {
  expect_gradients_match(
      [](std::span<const Var> x) {
        return embedding(x[0], Indices{4, 1, 4, 0}, {2, 2}, 0.6, x[1]);
      },
      {random_array({5, 3}, 1), random_array({2, 3}, 2)});
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  const Var table = random_array({4, 3}, 1, DType::float32);
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(
            embedding(table, Indices{1, 2}, {2}, 1, Array::zeros({3, 3}, DType::float32)));
      },
      "embedding: float32 [3, 3] is added to float32 [2, 3], expected its last axes");
  expect_throws<ValueError>(
      [&] {
        static_cast<void>(embedding(table, Indices{1, 4}, {2}, 1, {}));
      },
      "embedding: index 4 at place 1 is outside [0, 4), the rows of the table [4, 3]");
}

}  // namespace attune::select_test
