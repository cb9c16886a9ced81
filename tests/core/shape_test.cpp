#include "attune/core/shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "attune/core/error.h"

namespace attune::shape_test {

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Shape, DefaultIsAScalarWithOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(scalar.last(), 1);
  EXPECT_EQ(scalar.rows(), 1);
  EXPECT_EQ(to_string(scalar), "[]");
}

TEST(Shape, SizeIsTheProductOfTheExtents) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.size(), 30);
  EXPECT_EQ(shape.last(), 5);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(to_string(shape), "[2, 3, 5]");
}

TEST(Shape, NegativeAxesCountFromTheEnd) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.normalized(-2), 1u);
}

TEST(Shape, AxisOutsideTheRankIsAnError) {
  const Shape shape{2, 3};
  EXPECT_EQ(message_of<ShapeError>([&] { (void)shape[2]; }),
            "shape: axis 2 is outside [2, 3] of rank 2");
  EXPECT_THROW((void)shape[-3], ShapeError);
  EXPECT_THROW((void)Shape{}[0], ShapeError);
}

TEST(Shape, RowsAreCountedAlsoWhereTheLastExtentIsZero) {
  const Shape shape{2, 3, 0};
  EXPECT_EQ(shape.size(), 0);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ((Shape{0, 3}).rows(), 0);
  EXPECT_EQ((Shape{0}).rows(), 1);
}

TEST(Shape, RefusesNegativeExtents) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)Shape{2, -3};
            }),
            "shape: [2, -3] has the extent -3, expected 0 or more");
}

TEST(Shape, RefusesMoreThanEightExtents) {
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1, 1, 1}).rank(), 8);
  EXPECT_EQ(message_of<ShapeError>([] { (void)Shape{1, 1, 1, 1, 1, 1, 1, 1, 2}; }),
            "shape: [1, 1, 1, 1, 1, 1, 1, 1, 2] has rank 9, expected at most 8");
}

TEST(Shape, RefusesProductsBeyondTwoToThe62) {
  const std::int64_t big = std::int64_t{1} << 31;
  EXPECT_EQ((Shape{big, big}).size(), std::int64_t{1} << 62);
  EXPECT_THROW((void)(Shape{big, big, 2}), ShapeError);
  EXPECT_THROW((void)(Shape{std::int64_t{1} << 32, std::int64_t{1} << 32}), ShapeError);
}

TEST(Shape, AZeroExtentDoesNotHideAnOverflow) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW((void)(Shape{big, big, 0}), ShapeError);
  EXPECT_THROW((void)(Shape{0, big, big}), ShapeError);
}

TEST(Shape, WithReplacesOneExtent) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.with(-1, 7), (Shape{2, 3, 7}));
  EXPECT_EQ(shape.with(0, 0), (Shape{0, 3, 5}));
  EXPECT_EQ(shape.with(-1, 7).size(), 42);
  EXPECT_THROW((void)shape.with(3, 1), ShapeError);
}

TEST(Shape, EqualityLooksAtRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{1, 3}), (Shape{3}));
  EXPECT_NE(Shape{}, (Shape{1}));
}

TEST(Shape, IteratesOverItsExtents) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()),
            (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_EQ(shape.extents().size(), 3u);
}

// The expected shapes are those of numpy.broadcast_shapes.
TEST(Broadcast, FollowsNumpy) {
  EXPECT_EQ(broadcast("add", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {2, 1, 5}, {3, 1}), (Shape{2, 3, 5}));
  EXPECT_EQ(broadcast("add", {}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {}, {}), Shape{});
  EXPECT_EQ(broadcast("add", {0}, {1}), (Shape{0}));
  EXPECT_EQ(broadcast("add", {7, 1}, {0}), (Shape{7, 0}));
}

TEST(Broadcast, NamesTheOperationAndBothShapes) {
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)broadcast("add", {2, 3}, {4});
            }),
            "add: [2, 3] and [4] do not broadcast");
  EXPECT_THROW((void)broadcast("add", {0}, {3}), ShapeError);
}

}  // namespace attune::shape_test
