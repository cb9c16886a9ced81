#include "attune/ops/shaping.h"

#include "attune/ops/arithmetic.h"
#include "ops/op_test.h"

namespace attune::shaping_test {

constexpr DType kTypes[] = {DType::float32, DType::float64};

// The coordinates of a flat index.
std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(shape.rank()));
  for (std::size_t axis = result.size(); axis-- > 0;) {
    result[axis] = index % shape.extents()[axis];
    index /= shape.extents()[axis];
  }
  return result;
}

double at(const std::vector<double>& values, const Shape& shape,
          const std::vector<std::int64_t>& index) {
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    flat = flat * shape.extents()[axis] + index[axis];
  }
  return values[static_cast<std::size_t>(flat)];
}

// y[index] = x[source(index)] for every index of y.
template <class F>
void expect_moved(const Array& y, const Array& x, F source) {
  const std::vector<double> values = x.to_vector();
  std::vector<double> expected;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    expected.push_back(at(values, x.shape(), source(coordinates(y.shape(), i))));
  }
  EXPECT_EQ(y.dtype(), x.dtype());
  expect_near(y, expected, 0);
}

TEST(Reshape, KeepsTheOrderAndSharesStorage) {
  for (const DType dtype : kTypes) {
    const Array x = random_array({2, 3, 5}, 1, dtype);
    const Array y = reshape(x, {6, -1}).value();
    expect_near(y, x.reshaped({6, 5}), 0);
    EXPECT_TRUE(y.is_shared());
  }
  EXPECT_EQ(reshape(Array::zeros({1}, DType::float32), Shape{}).shape(), Shape{});
  EXPECT_EQ(reshape(Array::zeros({0, 3}, DType::float32), {-1, 3}).shape(), (Shape{0, 3}));
}

TEST(Reshape, GradientsMatch) {
  expect_gradients_match(
      [](std::span<const Var> x) {
        return reshape(x[0], {5, -1});
      },
      {random_array({2, 3, 5}, 2)});
  expect_gradients_match(
      [](std::span<const Var> x) {
        return reshape(x[0], Shape{1, 1});
      },
      {random_array({}, 3)});
  expect_gradients_match(
      [](std::span<const Var> x) {
        return reshape(x[0], {3, 0});
      },
      {random_array({0, 7}, 4)});
}

TEST(Reshape, NamesExtentsThatDoNotFit) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  const auto fails = [](const Array& value, std::initializer_list<std::int64_t> extents,
                        const std::string& message) {
    expect_throws<ShapeError>([&] { static_cast<void>(reshape(value, extents)); }, message);
  };
  fails(x, {4, 2}, "reshape: [2, 3] has 6 elements and does not fit [4, 2]");
  fails(x, {4, -1}, "reshape: [2, 3] has 6 elements and does not fit [4, -1]");
  fails(x, {-1, -1}, "reshape: [2, 3] has 6 elements and does not fit [-1, -1]");
  fails(x, {-2, 3}, "reshape: [2, 3] has 6 elements and does not fit [-2, 3]");
  fails(Array::zeros({0}, DType::float32), {0, -1},
        "reshape: [0] has 0 elements and does not fit [0, -1]");
}

TEST(Transpose, EqualsANaiveLoopForEachOrder) {
  const Shape shapes[] = {{2, 3, 5, 7}, {1, 3, 1, 5}, {2, 1, 19, 37}, {17, 2, 33, 1}, {2, 0, 3, 1}};
  for (const Shape& shape : shapes) {
    for (const DType dtype : kTypes) {
      const Array x = random_array(shape, 5, dtype);
      std::vector<int> order = {0, 1, 2, 3};
      do {
        const Array y = transpose(x, {order[0], order[1], order[2], order[3]}).value();
        for (int axis = 0; axis < 4; ++axis) {
          EXPECT_EQ(y.shape()[axis], shape[order[static_cast<std::size_t>(axis)]]);
        }
        expect_moved(y, x, [&](const std::vector<std::int64_t>& index) {
          std::vector<std::int64_t> from(4);
          for (std::size_t i = 0; i < 4; ++i) from[static_cast<std::size_t>(order[i])] = index[i];
          return from;
        });
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(Transpose, SwapsTheLastTwoAxes) {
  expect_near(transpose(Array::from({1, 4}, {5, 6, 7, 8})).value(),
              Array::from({4, 1}, {5, 6, 7, 8}));
  expect_near(transpose(Array::from({2, 1, 2}, {1, 2, 3, 4})).value(),
              Array::from({2, 2, 1}, {1, 2, 3, 4}));
  expect_near(transpose(Array::from({2, 3}, {1, 2, 3, 4, 5, 6}), {-1, -2}).value(),
              Array::from({3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(transpose(Array::scalar(3, DType::float32), {}).value().item(), 3);
}

TEST(Transpose, GradientsMatch) {
  expect_gradients_match(
      [](std::span<const Var> x) {
        return transpose(x[0], {2, 0, 3, 1});
      },
      {random_array({2, 3, 5, 1}, 6)});
  expect_gradients_match([](std::span<const Var> x) { return transpose(x[0]); },
                         {random_array({2, 3, 5}, 7)});
  expect_gradients_match([](std::span<const Var> x) { return transpose(x[0]) * x[0]; },
                         {random_array({3, 3}, 8)});
  expect_gradients_match([](std::span<const Var> x) { return transpose(x[0]); },
                         {random_array({0, 3}, 9)});
}

TEST(Transpose, NamesAnOrderThatIsNone) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  const auto fails = [&](std::initializer_list<int> order, const std::string& text) {
    expect_throws<ShapeError>([&] { static_cast<void>(transpose(x, order)); },
                              "transpose: [" + text + "] is not an order of the axes of [2, 3]");
  };
  fails({0}, "0");
  fails({0, 0}, "0, 0");
  fails({1, -1}, "1, -1");
  fails({0, 2}, "0, 2");
  expect_throws<ShapeError>([] { static_cast<void>(transpose(Array::zeros({3}, DType::float32))); },
                            "transpose: [3] has rank 1, expected 2 or more");
}

TEST(Heads, SplitPutsHeadsBeforeTimeAndMergeUndoesIt) {  // B07
  for (const DType dtype : kTypes) {
    const Array x = random_array({2, 5, 21}, 10, dtype);
    const Array y = split_heads(x, 3).value();
    ASSERT_EQ(y.shape(), (Shape{2, 3, 5, 7}));
    expect_moved(y, x, [](const std::vector<std::int64_t>& i) {
      return std::vector<std::int64_t>{i[0], i[2], i[1] * 7 + i[3]};
    });
    expect_near(merge_heads(y).value(), x, 0);
  }
}

TEST(Heads, GradientsMatch) {
  for (const std::int64_t heads : {1, 3}) {
    expect_gradients_match([&](std::span<const Var> x) { return split_heads(x[0], heads); },
                           {random_array({2, 5, 6}, 11)});
  }
  expect_gradients_match([](std::span<const Var> x) { return merge_heads(x[0]); },
                         {random_array({2, 3, 5, 7}, 12)});
}

TEST(Heads, NameShapesThatDoNotFit) {
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(split_heads(Array::zeros({2, 5, 20}, DType::float32), 3));
      },
      "split_heads: [2, 5, 20] into 3 heads, expected [batch, time, a multiple of heads]");
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(split_heads(Array::zeros({5, 20}, DType::float32), 2));
      },
      "split_heads: [5, 20] into 2 heads, expected [batch, time, a multiple of heads]");
  expect_throws<ShapeError>(
      [] {
        static_cast<void>(merge_heads(Array::zeros({2, 5, 20}, DType::float32)));
      },
      "merge_heads: [2, 5, 20], expected [batch, heads, time, head_dim]");
}

const Shape kCube = {3, 5, 7};

TEST(Slice, EqualsANaiveLoopForEachAxis) {
  for (const DType dtype : kTypes) {
    const Array x = random_array(kCube, 13, dtype);
    for (int axis = 0; axis < 3; ++axis) {
      for (std::int64_t begin = 0; begin <= kCube[axis]; ++begin) {
        for (std::int64_t end = begin; end <= kCube[axis]; ++end) {
          const Array y = slice(x, axis, begin, end).value();
          ASSERT_EQ(y.shape(), kCube.with(axis, end - begin));
          expect_moved(y, x, [&](std::vector<std::int64_t> index) {
            index[static_cast<std::size_t>(axis)] += begin;
            return index;
          });
        }
      }
    }
  }
}

TEST(Slice, GradientsMatch) {
  for (int axis = -3; axis < 3; ++axis) {
    expect_gradients_match([&](std::span<const Var> x) { return slice(x[0], axis, 1, 3); },
                           {random_array(kCube, 14)});
  }
  expect_gradients_match([](std::span<const Var> x) { return slice(x[0], 0, 2, 2); },
                         {random_array({3}, 15)});
  expect_gradients_match(
      [](std::span<const Var> x) {
        return slice(x[0], 0, 0, 2) * slice(x[0], 0, 1, 3) + slice(x[0] * x[0], 0, 1, 3);
      },
      {random_array({3, 5}, 16)});
}

TEST(Slice, NamesARangeOutside) {
  const Array x = Array::zeros({3, 5}, DType::float32);
  const auto fails = [&](int axis, std::int64_t begin, std::int64_t end,
                         const std::string& message) {
    expect_throws<ShapeError>([&] { static_cast<void>(slice(x, axis, begin, end)); }, message);
  };
  fails(1, 2, 6, "slice: [2, 6) of axis 1 of [3, 5], expected a range in [0, 5)");
  fails(-1, -1, 2, "slice: [-1, 2) of axis -1 of [3, 5], expected a range in [0, 5)");
  fails(0, 2, 1, "slice: [2, 1) of axis 0 of [3, 5], expected a range in [0, 3)");
  fails(2, 0, 1, "slice: axis 2 is outside [3, 5] of rank 2");
}

TEST(Concat, PutsPartsSideBySideAlongEachAxis) {
  for (const DType dtype : kTypes) {
    const Array x = random_array(kCube, 17, dtype);
    for (int axis = -3; axis < 3; ++axis) {
      const std::int64_t extent = kCube[axis];
      const Array y =
          concat({slice(x, axis, 0, 1), slice(x, axis, 1, 1), slice(x, axis, 1, extent)}, axis)
              .value();
      expect_near(y, x, 0);
    }
    expect_near(concat({Var(x)}, 1).value(), x, 0);
  }
}

TEST(Concat, GradientsMatch) {
  for (int axis = 0; axis < 3; ++axis) {
    expect_gradients_match(
        [&](std::span<const Var> x) {
          return concat({x[0], x[1], x[2]}, axis);
        },
        {random_array(kCube.with(axis, 2), 18), random_array(kCube.with(axis, 0), 19),
         random_array(kCube.with(axis, 3), 20)});
  }
  expect_gradients_match(
      [](std::span<const Var> x) {
        return concat({x[0], x[0]}, 0) * 2.0;
      },
      {random_array({3, 2}, 21)});
  const Array constant = random_array({3, 2}, 22);
  expect_gradients_match(
      [&](std::span<const Var> x) {
        return concat({constant, x[0], constant}, 1);
      },
      {random_array({3, 5}, 23)});
}

TEST(Concat, TakesMorePartsThanARecordByListCould) {
  std::vector<Array> inputs;
  for (std::uint64_t i = 0; i < 13; ++i) inputs.push_back(random_array({2, 1}, 30 + i));
  expect_gradients_match([](std::span<const Var> x) { return concat(x, 1); }, inputs);
}

TEST(Concat, NamesPartsThatDoNotFit) {
  const Array x = Array::zeros({3, 5}, DType::float32);
  const auto fails = [&](const Array& other, const std::string& message) {
    expect_throws<ShapeError>([&] { static_cast<void>(concat({x, other}, 0)); }, message);
  };
  fails(Array::zeros({3, 4}, DType::float32),
        "concat: part 1 is [3, 4] and part 0 is [3, 5], expected to differ in axis 0 alone");
  fails(Array::zeros({5}, DType::float32),
        "concat: part 1 is [5] and part 0 is [3, 5], expected to differ in axis 0 alone");
  fails(Array::zeros({3, 5}, DType::float64),
        "concat: operands are float32 [3, 5] and float64 [3, 5], expected one dtype");
  expect_throws<ShapeError>([] { static_cast<void>(concat(std::span<const Var>(), 0)); },
                            "concat: no parts, expected at least one");
  expect_throws<ShapeError>([&] { static_cast<void>(concat({x}, 2)); },
                            "concat: axis 2 is outside [3, 5] of rank 2");
}

TEST(BroadcastTo, RepeatsAndSumsBack) {
  const std::pair<Shape, Shape> cases[] = {{{3, 1}, {3, 5}}, {{5}, {2, 3, 5}},       {{}, {2, 3}},
                                           {{}, {}},         {{2, 1, 3}, {2, 7, 3}}, {{1}, {0}},
                                           {{3, 5}, {3, 5}}};
  for (const auto& [from, to] : cases) {
    SCOPED_TRACE(to_string(from) + to_string(to));
    for (const DType dtype : kTypes) {
      const Array x = random_array(from, 24, dtype);
      const Array y = broadcast_to(x, to).value();
      ASSERT_EQ(y.shape(), to);
      expect_moved(y, x, [&](const std::vector<std::int64_t>& index) {
        std::vector<std::int64_t> source(index.end() - from.rank(), index.end());
        for (std::size_t i = 0; i < source.size(); ++i) {
          if (from.extents()[i] == 1) source[i] = 0;
        }
        return source;
      });
    }
    expect_gradients_match([&](std::span<const Var> v) { return broadcast_to(v[0], to); },
                           {random_array(from, 25)});
  }
}

TEST(BroadcastTo, NamesShapesThatDoNotFit) {
  const Array x = Array::zeros({2, 3}, DType::float32);
  expect_throws<ShapeError>([&] { static_cast<void>(broadcast_to(x, {4})); },
                            "broadcast_to: [2, 3] does not broadcast to [4]");
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(broadcast_to(x, {2, 4}));
      },
      "broadcast_to: [2, 3] does not broadcast to [2, 4]");
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(broadcast_to(x, {1, 3}));
      },
      "broadcast_to: [2, 3] does not broadcast to [1, 3]");
}

}  // namespace attune::shaping_test
