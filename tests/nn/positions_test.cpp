#include "attune/nn/positions.h"

#include <algorithm>
#include <map>

#include "nn/layer_test.h"

namespace attune::positions_test {

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

RandomStream stream_of(std::uint32_t step) {
  return Randomness{.seed = 3, .step = step}.stream("positions");
}

TEST(SampledPositions, AreSortedApartAndWithinTheLimit) {
  for (std::uint32_t step = 0; step < 50; ++step) {
    const Positions drawn = Positions::sample(17, 40, stream_of(step));
    ASSERT_EQ(drawn.values.size(), 17u);
    EXPECT_EQ(drawn.batch, 1);
    EXPECT_EQ(drawn.time, 17);
    EXPECT_EQ(std::ranges::adjacent_find(drawn.values, std::greater_equal<>()), drawn.values.end());
    EXPECT_GE(drawn.values.front(), 0);
    EXPECT_LT(drawn.values.back(), 40);
    EXPECT_EQ(drawn, Positions::sample(17, 40, stream_of(step)));
  }
  EXPECT_NE(Positions::sample(17, 40, stream_of(0)), Positions::sample(17, 40, stream_of(1)));
}

// Ten pairs of five: chi squared of 9 degrees is below 27.9 in 999 of 1000 draws.
TEST(SampledPositions, EverySubsetIsEquallyLikely) {
  std::map<Values, double> counts;
  constexpr int kDraws = 5000;
  for (std::uint32_t step = 0; step < kDraws; ++step)
    ++counts[Positions::sample(2, 5, stream_of(step)).values];
  ASSERT_EQ(counts.size(), 10u);
  double chi_squared = 0;
  for (const auto& [subset, count] : counts)
    chi_squared += (count - kDraws / 10.0) * (count - kDraws / 10.0) / (kDraws / 10.0);
  EXPECT_LT(chi_squared, 27.9);
}

TEST(SampledPositions, AllOrNoneOfThemAreServedMoreAreRefused) {
  EXPECT_EQ(Positions::sample(6, 6, stream_of(0)), Positions::range(0, 6));
  EXPECT_EQ(Positions::sample(0, 6, stream_of(0)).time, 0);
  expect_throws<ValueError>([] { static_cast<void>(Positions::sample(7, 6, stream_of(0))); },
                            "positions: 7 tokens do not fit into --random-positions 6");
}

}  // namespace attune::positions_test
