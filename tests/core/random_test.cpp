#include "attune/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "attune/core/error.h"

namespace attune::random_test {

using Words = std::array<std::uint32_t, 4>;

std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}

// The known answers of philox4x32-10 in kat_vectors of the Random123 distribution (Salmon et al.
// 2011).
TEST(RandomStream, MatchesThePublishedAnswerForZeros) {
  EXPECT_EQ(RandomStream(0, 0, 0).bits(0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(RandomStream, MatchesThePublishedAnswerForOnes) {
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(RandomStream(ones, 0xffffffff, 0xffffffff).bits(ones),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(RandomStream, MatchesThePublishedAnswerForDigitsOfPi) {
  const RandomStream stream(join(0xa4093822, 0x299f31d0), 0x13198a2e, 0x03707344);
  EXPECT_EQ(stream.bits(join(0x243f6a88, 0x85a308d3)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, FillEqualsBitsForEveryLength) {
  const RandomStream stream(17, 5, 99);
  // The last start lets the lower word of the index overflow in the middle of a vector.
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7}, join(0xfffffffd, 41)}) {
    for (std::size_t blocks = 0; blocks < 41; ++blocks) {
      std::vector<std::uint32_t> words(4 * blocks);
      stream.fill(first, words);
      for (std::size_t i = 0; i < blocks; ++i) {
        const Words expected = stream.bits(first + i);
        for (std::size_t w = 0; w < 4; ++w) {
          ASSERT_EQ(words[4 * i + w], expected[w]) << first << " " << blocks << " " << i;
        }
      }
    }
  }
}

TEST(RandomStream, FillRefusesPartsOfABlock) {
  std::vector<std::uint32_t> words(6);
  try {
    RandomStream(0, 0, 0).fill(0, words);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(), "random: fill of 6 words, expected a multiple of 4");
  }
}

TEST(RandomStream, UniformIsTheUpper53BitsOfTheFirstTwoWords) {
  // 0x6627e8d5e169c58d of the published answer above, shifted right by 11, times 2^-53 (Python).
  EXPECT_EQ(RandomStream(0, 0, 0).uniform(0), 0.3990464708489645);
}

// A mean of n uniform numbers has standard deviation 1 / sqrt(12 n) = 0.00091, of their squares
// 0.0009.
TEST(RandomStream, UniformHasTheMomentsOfItsDistribution) {
  const RandomStream stream(1, 0, 2);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0, smallest = 1, largest = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = stream.uniform(i);
    sum += x;
    squares += x * x;
    smallest = std::min(smallest, x);
    largest = std::max(largest, x);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.004);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.004);
  EXPECT_GE(smallest, 0);
  EXPECT_LT(largest, 1);
  EXPECT_GT(largest, 0.999);
}

TEST(RandomStream, NormalIsTheTransformOfTheHeader) {
  // From the four words of the published answers for zeros, by the formula of the header (Python's
  // math module).
  const RandomStream stream(0, 0, 0);
  EXPECT_NEAR(stream.normal(0), -0.09047305844120267, 1e-15);
  EXPECT_NEAR(stream.normal(1), -1.0051318150657187, 1e-15);
}

TEST(RandomStream, NormalHasTheMomentsOfItsDistribution) {
  const RandomStream stream(3, 0, 4);
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, previous = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = stream.normal(i);
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    neighbours += x * previous;
    previous = x;
  }
  // Five standard deviations of each mean: sqrt of 1, 2, 15, 96 and 1 over the count.
  EXPECT_NEAR(sum / kCount, 0, 0.0112);
  EXPECT_NEAR(squares / kCount, 1, 0.0159);
  EXPECT_NEAR(cubes / kCount, 0, 0.0434);
  EXPECT_NEAR(fourths / kCount, 3, 0.110);
  EXPECT_NEAR(neighbours / kCount, 0, 0.0112);
}

TEST(Randomness, StreamsDependOnSeedStepAndPath) {
  const Words base = Randomness{1, 2}.stream("block.0.attention.dropout").bits(3);
  EXPECT_EQ((Randomness{1, 2}.stream("block.0.attention.dropout").bits(3)), base);
  EXPECT_NE((Randomness{2, 2}.stream("block.0.attention.dropout").bits(3)), base);
  EXPECT_NE((Randomness{1, 3}.stream("block.0.attention.dropout").bits(3)), base);
  EXPECT_NE((Randomness{1, 2}.stream("block.1.attention.dropout").bits(3)), base);
}

TEST(Randomness, SeedUsesBothOfItsHalves) {
  const std::uint64_t high_bit = std::uint64_t{1} << 62;
  EXPECT_NE((Randomness{high_bit, 0}.stream("a").bits(0)), (Randomness{0, 0}.stream("a").bits(0)));
}

TEST(Randomness, ThePathEntersAsFoldedFnv1a) {
  // FNV-1a of "foobar" is 0x85944171f73967e8 (published); its halves XOR to 0x72ad2699.
  EXPECT_EQ((Randomness{5, 6}.stream("foobar").bits(7)), RandomStream(5, 6, 0x72ad2699).bits(7));
}

TEST(RandomCursor, WalksTheBlocksOfItsExample) {
  const RandomStream stream(8, 9, 10);
  RandomCursor cursor(stream, 11);
  for (std::uint64_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : stream.bits(std::uint64_t{11} << 32 | block)) {
      EXPECT_EQ(cursor.bits(), word);
    }
  }
}

TEST(RandomCursor, BelowIsEven) {
  RandomCursor cursor(RandomStream(1, 1, 1), 0);
  constexpr int kCount = 70000;
  std::array<int, 7> counts{};
  for (int i = 0; i < kCount; ++i) ++counts[cursor.below(7)];
  // Standard deviation of a count: sqrt(n * 1/7 * 6/7) = 93.
  for (const int count : counts) EXPECT_NEAR(count, kCount / 7, 460);
}

// Plain scaling of 32 bits to 3 * 2^30 numbers would meet the multiples of 3 twice as often as the
// others.
TEST(RandomCursor, BelowHasNoBiasForLargeBounds) {
  RandomCursor cursor(RandomStream(2, 1, 1), 0);
  constexpr std::uint32_t kBound = 3u << 30;
  constexpr int kCount = 30000;
  int divisible = 0;
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t x = cursor.below(kBound);
    ASSERT_LT(x, kBound);
    divisible += x % 3 == 0;
  }
  // Standard deviation sqrt(n * 1/3 * 2/3) = 82; the biased version gives n / 2.
  EXPECT_NEAR(divisible, kCount / 3, 410);
}

TEST(RandomCursor, BelowOneIsZeroAndBelowZeroIsAnError) {
  RandomCursor cursor(RandomStream(3, 1, 1), 0);
  EXPECT_EQ(cursor.below(1), 0u);
  EXPECT_THROW((void)cursor.below(0), ValueError);
}

TEST(RandomCursor, BetweenIncludesBothEnds) {
  RandomCursor cursor(RandomStream(4, 1, 1), 0);
  std::array<int, 5> counts{};
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t x = cursor.between(-2, 2);
    ASSERT_GE(x, -2);
    ASSERT_LE(x, 2);
    ++counts[static_cast<std::size_t>(x + 2)];
  }
  for (const int count : counts) EXPECT_GT(count, 120);
  EXPECT_EQ(cursor.between(6, 6), 6);
  EXPECT_THROW((void)cursor.between(1, 0), ValueError);
}

TEST(RandomCursor, BetweenCoversWideRanges) {
  RandomCursor cursor(RandomStream(5, 1, 1), 0);
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  int negative = 0, upper_half = 0;
  for (int i = 0; i < 1000; ++i) {
    negative += cursor.between(kLowest, kHighest) < 0;
    const std::int64_t x = cursor.between(0, std::int64_t{1} << 40);
    ASSERT_GE(x, 0);
    ASSERT_LE(x, std::int64_t{1} << 40);
    upper_half += x >= std::int64_t{1} << 39;
  }
  EXPECT_NEAR(negative, 500, 80);
  EXPECT_NEAR(upper_half, 500, 80);
  // 2^32 numbers: the one width that a 32-bit bound cannot express.
  EXPECT_LE(cursor.between(0, 0xffffffff), 0xffffffff);
}

TEST(RandomCursor, UniformTakesTwoWords) {
  const RandomStream stream(0, 0, 0);
  RandomCursor cursor(stream, 0);
  EXPECT_EQ(cursor.uniform(), stream.uniform(0));
  RandomCursor reference(stream, 0);
  (void)reference.bits();
  (void)reference.bits();
  EXPECT_EQ(cursor.bits(), reference.bits());
}

}  // namespace attune::random_test
