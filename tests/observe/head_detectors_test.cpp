#include "attune/observe/head_detectors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/observe/effective_rank.h"
#include "attune/observe/heat_text.h"
#include "attune/observe/npy.h"

// What is told of a map of attention: scores by detectors, effective rank, shades, files.
namespace attune::head_detectors_test {

// One head over the tokens, the weights that `weight(i, j)` says.
template <class Weight>
Array pattern_of(std::int64_t time, Weight weight) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < time; ++i)
    for (std::int64_t j = 0; j < time; ++j) values.push_back(weight(i, j));
  return Array::from({1, 1, time, time}, values, DType::float64);
}

// Tokens 5 3 8 5 3 8 5: queries 3 to 6 have met their token before, 6 twice.
const std::vector<std::int32_t> kRepeated = {5, 3, 8, 5, 3, 8, 5};

TEST(HeadDetectors, APreviousTokenHeadScoresOneAndNothingElse) {
  const Array pattern = pattern_of(
      7, [](std::int64_t i, std::int64_t j) { return j == std::max<std::int64_t>(i - 1, 0); });
  const HeadScores scores = score_heads(pattern, kRepeated).front();
  EXPECT_DOUBLE_EQ(scores.previous_token, 1);
  EXPECT_DOUBLE_EQ(scores.duplicate_token, 0);
  EXPECT_DOUBLE_EQ(scores.induction, 0);
}

TEST(HeadDetectors, ADuplicateTokenHeadAndAnInductionHeadScoreTheirOwnOverTheQueriesThatHaveOne) {
  const auto back = [](std::int64_t distance) {
    return
        [distance](std::int64_t i, std::int64_t j) { return i >= 3 ? j == i - distance : j == i; };
  };
  const HeadScores duplicate = score_heads(pattern_of(7, back(3)), kRepeated).front();
  EXPECT_DOUBLE_EQ(duplicate.duplicate_token, 1);
  EXPECT_DOUBLE_EQ(duplicate.induction, 0);
  const HeadScores induction = score_heads(pattern_of(7, back(2)), kRepeated).front();
  EXPECT_DOUBLE_EQ(induction.induction, 1);
  EXPECT_DOUBLE_EQ(induction.duplicate_token, 0);
}

// Uniform over i + 1 keys: query i gives 1 / (i + 1) to its previous token. Earlier equal tokens:
// one for queries 3, 4, 5, two for 6; the keys behind them as many, all before the query.
TEST(HeadDetectors, AUniformCausalHeadScoresTheSharesOfItsKeys) {
  const Array pattern = pattern_of(7, [](std::int64_t i, std::int64_t j) {
    return j <= i ? 1.0 / static_cast<double>(i + 1) : 0.0;
  });
  const HeadScores scores = score_heads(pattern, kRepeated).front();
  const double previous = (1. / 2 + 1. / 3 + 1. / 4 + 1. / 5 + 1. / 6 + 1. / 7) / 6;
  const double met = (1. / 4 + 1. / 5 + 1. / 6 + 2. / 7) / 4;
  EXPECT_NEAR(scores.previous_token, previous, 1e-15);
  EXPECT_NEAR(scores.duplicate_token, met, 1e-15);
  EXPECT_NEAR(scores.induction, met, 1e-15);
}

TEST(HeadDetectors, HeadsAndExamplesDoNotMix) {
  // Two examples of two tokens, two heads; head 1 of each example looks back.
  const Array pattern = Array::from(
      {2, 2, 2, 2}, std::vector<double>{1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0.5, 0.5, 1, 0, 1, 0},
      DType::float32);
  const auto scores = score_heads(pattern, std::vector<std::int32_t>{4, 4, 4, 9});
  EXPECT_DOUBLE_EQ(scores[0].previous_token, 0.25);
  EXPECT_DOUBLE_EQ(scores[1].previous_token, 1);
  EXPECT_DOUBLE_EQ(scores[0].duplicate_token, 0);  // of the first example alone
  EXPECT_DOUBLE_EQ(scores[1].duplicate_token, 1);
  EXPECT_DOUBLE_EQ(scores[1].induction, 0);  // no query has such a key
  EXPECT_THROW((void)score_heads(pattern, kRepeated), ShapeError);
}

TEST(HeadDetectors, ProbesRepeatWithPeriodsThatDifferAndHaveNoTokenTwiceWithin) {
  const ProbeTokens probe = repeated_random_tokens(32, 20, 48, 7);
  std::set<std::int64_t> periods;
  for (std::int64_t b = 0; b < 20; ++b) {
    const auto row = std::span(probe.tokens).subspan(static_cast<std::size_t>(b * 48), 48);
    std::int64_t period = 1;
    while (!std::equal(row.begin() + period, row.end(), row.begin())) ++period;
    periods.insert(period);
    EXPECT_GE(period, 12);
    EXPECT_LE(period, 24);
    EXPECT_EQ(std::set(row.begin(), row.begin() + period).size(), static_cast<std::size_t>(period));
    EXPECT_LT(*std::ranges::max_element(row), 32);
  }
  EXPECT_GE(periods.size(), 5u);
  EXPECT_EQ(repeated_random_tokens(32, 20, 48, 7).tokens, probe.tokens);
  EXPECT_NE(repeated_random_tokens(32, 20, 48, 8).tokens, probe.tokens);
  EXPECT_EQ(repeated_random_tokens(2, 1, 20).tokens.size(), 20u);  // fewer tokens than a period
  EXPECT_THROW((void)repeated_random_tokens(0, 1, 8), ValueError);
}

// Singular values s_k: exp(-sum s_k/S ln s_k/S). Of diag(3, 1): exp(-.75 ln .75 - .25 ln .25).
TEST(EffectiveRank, IsThatOfKnownMatrices) {
  EXPECT_NEAR(effective_rank(std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}, 3, 3), 3, 1e-12);
  EXPECT_NEAR(effective_rank(std::vector<double>(12, 0.25), 3, 4), 1, 1e-7);
  const double expected = std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25));
  EXPECT_NEAR(effective_rank(std::vector<double>{0, 3, 0, -1, 0, 0}, 2, 3), expected, 1e-12);
  EXPECT_EQ(effective_rank(std::vector<double>(4), 2, 2), 0);
  EXPECT_THROW((void)effective_rank(std::vector<double>(5), 2, 2), ShapeError);
  EXPECT_THROW((void)effective_rank(std::vector<double>{NAN}, 1, 1), ValueError);
}

// numpy.lib.format: magic, version, length of the header, a Python literal padded so that the
// elements begin at a multiple of 64.
TEST(Npy, IsTheFormatToTheByte) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("attune-" + std::to_string(getpid()) + ".npy");
  write_npy(path, {2, 1}, std::vector<double>{1.0, -2.0});
  std::string bytes = read_file(path);
  ASSERT_EQ(bytes.size(), 128u + 16u);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(10, 57), "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1),");
  EXPECT_EQ(bytes[127], '\n');
  EXPECT_EQ(bytes.substr(128), std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0", 16));
  write_npy(path, {1}, std::vector<std::int32_t>{258});
  bytes = read_file(path);
  EXPECT_NE(bytes.find("'<i4', 'fortran_order': False, 'shape': (1,), }"), std::string::npos);
  EXPECT_EQ(bytes.substr(bytes.size() - 4), std::string("\2\1\0\0", 4));
  EXPECT_THROW(write_npy(path, {3}, std::vector<double>{1, 2}), ShapeError);
  std::filesystem::remove(path);
}

TEST(HeatText, AMapHasItsTokensAndShadesBySize) {
  const std::vector<double> values = {1, 0, 0.3, 0.02};
  const std::vector<std::string> labels = {"a", "\n"};
  const HeatPanel panel{"title", values, 2, 2};
  EXPECT_EQ(heat_map(panel, labels, 80, Shades::ascii), "title\n  a \\\na @@\n\\ ##..\n");
  EXPECT_EQ(heat_map(panel, labels, 80, Shades::blocks), "title\n  a ↵\na ██\n↵ ▓▓··\n");
}

TEST(HeatText, PanelsStandSideBySideAndLargeMapsArePooledByTheirLargestWeight) {
  const std::vector<double> small = {1, 0, 0, 1};
  std::vector<double> large(16 * 16, 0);
  large[3 * 16 + 15] = 1;
  const HeatPanel panels[] = {{"one", small, 2, 2}, {"two", large, 16, 16}};
  // Room for 8 characters each: the second has cells of 2 columns and 4 rows.
  EXPECT_EQ(heat_panels(panels, 18, Shades::ascii),
            "one       two\n@@               @\n  @@\n\n\n");
}

}  // namespace attune::head_detectors_test
