#include "attune/core/attention_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attune/core/error.h"

namespace attune::attention_statistics_test {

// Distinct values in every field, so that a swapped one shows.
HeadStatistics example(double base) {
  return {.entropy_sum = base + 1,
          .log_keys_sum = base + 2,
          .normalized_sum = base + 3,
          .effective_keys_sum = base + 4,
          .max_probability_sum = base + 5,
          .score_sum = base + 6,
          .score_square_sum = base + 7,
          .score_row_variance_sum = base + 8,
          .score_count = base + 9,
          .score_max_abs = base + 10,
          .distance_sum = base + 11,
          .sink_mass_sum = base + 12,
          .rows_valid = static_cast<std::int64_t>(base) + 13,
          .rows_single = static_cast<std::int64_t>(base) + 14,
          .rows_empty = static_cast<std::int64_t>(base) + 15,
          .violations = static_cast<std::int64_t>(base) + 16};
}

TEST(HeadStatistics, AddsSumsAndCountsAndKeepsTheLargestScore) {
  HeadStatistics sum = example(0);
  sum += example(100);
  EXPECT_EQ(sum.entropy_sum, 102);
  EXPECT_EQ(sum.log_keys_sum, 104);
  EXPECT_EQ(sum.normalized_sum, 106);
  EXPECT_EQ(sum.effective_keys_sum, 108);
  EXPECT_EQ(sum.max_probability_sum, 110);
  EXPECT_EQ(sum.score_sum, 112);
  EXPECT_EQ(sum.score_square_sum, 114);
  EXPECT_EQ(sum.score_row_variance_sum, 116);
  EXPECT_EQ(sum.score_count, 118);
  EXPECT_EQ(sum.score_max_abs, 110);
  EXPECT_EQ(sum.distance_sum, 122);
  EXPECT_EQ(sum.sink_mass_sum, 124);
  EXPECT_EQ(sum.rows_valid, 126);
  EXPECT_EQ(sum.rows_single, 128);
  EXPECT_EQ(sum.rows_empty, 130);
  EXPECT_EQ(sum.violations, 132);
}

TEST(HeadStatistics, KeepsTheLargestScoreOfTheLeftSideToo) {
  HeadStatistics sum = example(100);
  sum += example(0);
  EXPECT_EQ(sum.score_max_abs, 110);
}

// Two rows: the worked example of three keys, H = 1.09741336773, and one row of two equal keys, H =
// ln 2. The ratio of sums 1.790560548 / 1.791759469 is from Python; the mean of ratios would be
// 0.999455.
TEST(HeadStatistics, NormalizedEntropyIsARatioOfSums) {
  const HeadStatistics head{.entropy_sum = 1.09741336773 + std::log(2.0),
                            .log_keys_sum = std::log(3.0) + std::log(2.0),
                            .rows_valid = 2};
  EXPECT_NEAR(head.entropy_norm(), 0.999330869484, 1e-10);
  EXPECT_NEAR(head.entropy_nats(), 0.895280274145, 1e-10);
}

TEST(HeadStatistics, MeansAreOverValidRowsOnly) {
  const HeadStatistics head{.entropy_sum = 3,
                            .log_keys_sum = 4,
                            .max_probability_sum = 1.5,
                            .score_row_variance_sum = 27,
                            .rows_valid = 3,
                            .rows_single = 100,
                            .rows_empty = 1000};
  EXPECT_EQ(head.entropy_nats(), 1);
  EXPECT_EQ(head.entropy_norm(), 0.75);
  EXPECT_EQ(head.max_probability(), 0.5);
  EXPECT_EQ(head.score_std(), 3);
}

TEST(HeadStatistics, IsZeroWithoutValidRows) {
  const HeadStatistics head{.rows_single = 5};
  EXPECT_EQ(head.entropy_nats(), 0);
  EXPECT_EQ(head.entropy_norm(), 0);
  EXPECT_EQ(head.max_probability(), 0);
  EXPECT_EQ(head.score_std(), 0);
}

TEST(AttentionStatistics, KeepsHeadsApart) {
  AttentionStatistics statistics(2, 3);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) statistics.at(layer, head).rows_valid = 10 * layer + head;
  }
  EXPECT_EQ(statistics.layers(), 2);
  EXPECT_EQ(statistics.heads(), 3);
  ASSERT_EQ(statistics.layer(1).size(), 3u);
  EXPECT_EQ(statistics.layer(1)[2].rows_valid, 12);
  EXPECT_EQ(statistics.layer(0)[1].rows_valid, 1);
}

TEST(AttentionStatistics, NamesAnIndexOutside) {
  AttentionStatistics statistics(2, 3);
  try {
    (void)statistics.at(2, 0);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(), "attention statistics: layer 2, expected 0 to 1");
  }
  EXPECT_THROW((void)statistics.at(0, 3), ValueError);
  EXPECT_THROW((void)statistics.at(-1, 0), ValueError);
  EXPECT_THROW((void)statistics.layer(2), ValueError);
  EXPECT_THROW(AttentionStatistics(-1, 2), ValueError);
}

TEST(AttentionStatistics, AddsHeadByHead) {
  AttentionStatistics a(2, 3), b(2, 3);
  a.at(1, 2).rows_valid = 5;
  b.at(1, 2).rows_valid = 7;
  b.at(0, 1).rows_valid = 2;
  a += b;
  EXPECT_EQ(a.at(1, 2).rows_valid, 12);
  EXPECT_EQ(a.at(0, 1).rows_valid, 2);
  EXPECT_EQ(a.at(0, 0).rows_valid, 0);
}

TEST(AttentionStatistics, AnEmptySideIsNeutral) {
  AttentionStatistics some(1, 2), sum;
  some.at(0, 1).rows_valid = 3;
  sum += some;
  EXPECT_EQ(sum.heads(), 2);
  EXPECT_EQ(sum.at(0, 1).rows_valid, 3);
  sum += AttentionStatistics();
  EXPECT_EQ(sum.at(0, 1).rows_valid, 3);
}

TEST(AttentionStatistics, OtherExtentsDoNotAdd) {
  AttentionStatistics a(2, 3);
  EXPECT_THROW(a += AttentionStatistics(3, 2), ShapeError);
}

TEST(AttentionStatistics, ClearKeepsTheExtents) {
  AttentionStatistics statistics(2, 3);
  statistics.at(1, 1) = example(0);
  statistics.clear();
  EXPECT_EQ(statistics.layers(), 2);
  EXPECT_EQ(statistics.at(1, 1).entropy_sum, 0);
  EXPECT_EQ(statistics.at(1, 1).violations, 0);
}

}  // namespace attune::attention_statistics_test
