#include "attune/nn/positions.h"

#include "nn/layer_test.h"

namespace attune {
namespace {

using Values = std::vector<std::int32_t>;

TEST(Positions, RangeCountsFromItsFirst) {
  EXPECT_EQ(Positions::range(4, 3).values, (Values{4, 5, 6}));
  EXPECT_EQ(Positions::range(4, 0).time, 0);
}

TEST(Positions, FollowedByJoinsRowByRow) {
  const Positions one{2, 2, {0, 1, 5, 6}};
  const Positions joined = one.followed_by({2, 1, {2, 7}});
  EXPECT_EQ(joined, (Positions{2, 3, {0, 1, 2, 5, 6, 7}}));
}

TEST(Positions, ASharedRowJoinsRowsOfEachExample) {
  const Positions joined = Positions::range(0, 2).followed_by({2, 1, {2, 7}});
  EXPECT_EQ(joined, (Positions{2, 3, {0, 1, 2, 0, 1, 7}}));
}

TEST(Positions, NothingInFrontOrBehindChangesNothing) {
  const Positions some{2, 1, {3, 4}};
  EXPECT_EQ(Positions{}.followed_by(some), some);
  EXPECT_EQ(some.followed_by(Positions{}), some);
}

TEST(Positions, RowsForOtherExamplesAreRefused) {
  const Positions two{2, 1, {3, 4}};
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(two.followed_by({3, 1, {1, 2, 3}}));
      },
      "positions: rows for 2 and 3 examples do not fit each other");
}

}  // namespace
}  // namespace attune
