#include "attune/core/mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "attune/core/error.h"

namespace attune::mask_test {

using Flags = std::vector<std::uint8_t>;

constexpr float kIgnored = -std::numeric_limits<float>::infinity();

// The rows of one head as text, "1" where a key is kept, rows apart by a blank.
std::string rows(const Mask& mask, std::int64_t query, std::int64_t key, std::int64_t b = 0,
                 std::int64_t h = 0) {
  std::string text;
  for (std::int64_t i = 0; i < query; ++i) {
    if (i > 0) text += ' ';
    for (std::int64_t j = 0; j < key; ++j) text += mask.keeps(b, h, i, j, query, key) ? '1' : '0';
  }
  return text;
}

template <class Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Mask, DefaultKeepsEverything) {
  EXPECT_EQ(rows(Mask::none(), 2, 3), "111 111");
  EXPECT_TRUE(Mask::none().is_band());
  EXPECT_FALSE(Mask::none().is_causal());
}

TEST(Mask, CausalKeepsThePastAndThePresent) {
  EXPECT_EQ(rows(Mask::causal(), 3, 3), "100 110 111");
  EXPECT_TRUE(Mask::causal().is_causal());
}

// pytorch/pytorch#108108: with fewer queries than keys the last query sees every key.
TEST(Mask, CausalIsAlignedBottomRight) {  // B05
  EXPECT_EQ(rows(Mask::causal(), 1, 5), "11111");
  EXPECT_EQ(rows(Mask::causal(), 2, 5), "11110 11111");
  EXPECT_EQ(rows(Mask::causal(), 3, 5), "11100 11110 11111");
}

TEST(Mask, CausalRowsBeforeTheFirstKeyKeepNothing) {  // B05
  EXPECT_EQ(rows(Mask::causal(), 5, 2), "00 00 00 10 11");
  EXPECT_EQ(rows(Mask::causal(), 2, 0), " ");
}

TEST(Mask, WindowReachesToBothSides) {
  EXPECT_EQ(rows(Mask::window(2), 5, 5), "11000 11100 01110 00111 00011");
  EXPECT_EQ(rows(Mask::window(1), 3, 3), "100 010 001");
}

TEST(Mask, CausalWindowLooksBackOnly) {
  EXPECT_EQ(rows(Mask::causal() & Mask::window(2), 4, 4), "1000 1100 0110 0011");
  EXPECT_EQ(rows(Mask::causal() & Mask::window(2), 2, 5), "00110 00011");
}

TEST(Mask, WindowWithoutKeysInReachKeepsNothing) {
  EXPECT_EQ(rows(Mask::window(2), 5, 2), "00 00 10 11 11");
}

TEST(Mask, WindowsOfAnyWidthDoNotOverflow) {
  const Mask widest = Mask::window(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(rows(widest, 2, 3), "111 111");
  EXPECT_EQ(rows(widest & Mask::causal(), 2, 3), "110 111");
}

TEST(Mask, WindowBelowOneIsAnError) {
  EXPECT_EQ(message_of<ValueError>([] { (void)Mask::window(0); }),
            "mask: window of 0 keys, expected 1 or more");
}

TEST(Mask, NarrowerWindowWins) {
  EXPECT_EQ((Mask::window(5) & Mask::window(2)).window_width(), 2);
  EXPECT_EQ((Mask::window(2) & Mask::window(5)).window_width(), 2);
  EXPECT_EQ((Mask::none() & Mask::window(5)).window_width(), 5);
}

TEST(Mask, BandStaysInsideTheKeys) {
  const Mask masks[] = {Mask::none(), Mask::causal(), Mask::window(1), Mask::window(3),
                        Mask::causal() & Mask::window(2)};
  for (const Mask& mask : masks) {
    for (std::int64_t query = 0; query < 7; ++query) {
      for (std::int64_t key = 0; key < 7; ++key) {
        for (std::int64_t i = 0; i < query; ++i) {
          const Mask::Range range = mask.band(i, query, key);
          ASSERT_GE(range.begin, 0);
          ASSERT_GE(range.end, 0);
          ASSERT_LE(range.end, key);
          // The definition of the header, key by key.
          for (std::int64_t j = 0; j < key; ++j) {
            const std::int64_t ahead = j - (i + key - query);
            const std::int64_t width = mask.window_width();
            const bool kept = (!mask.is_causal() || ahead <= 0) &&
                              (width == 0 || (-ahead < width && ahead < width));
            ASSERT_EQ(range.begin <= j && j < range.end, kept) << query << key << i << j;
          }
        }
      }
    }
  }
}

// hyunwoongko/transformer#40, mlpack/mlpack#3969: padding belongs to keys, and to each example by
// itself.
TEST(Mask, PaddingIsPerExampleAndPerKey) {  // B04
  const Mask mask = Mask::key_padding(2, {1, 1, 0, 1, 0, 0});
  EXPECT_EQ(rows(mask, 3, 3, 0), "110 110 110");
  EXPECT_EQ(rows(mask, 3, 3, 1), "100 100 100");
  EXPECT_FALSE(mask.is_band());
}

TEST(Mask, LengthsArePaddingOnTheRight) {
  const std::int64_t lengths[] = {2, 0, 3};
  const Mask mask = Mask::key_lengths(lengths, 3);
  EXPECT_EQ(rows(mask, 1, 3, 0), "110");
  EXPECT_EQ(rows(mask, 1, 3, 1), "000");
  EXPECT_EQ(rows(mask, 1, 3, 2), "111");
}

TEST(Mask, LengthBeyondTheKeysIsAnError) {
  const std::int64_t lengths[] = {2, 4};
  EXPECT_EQ(message_of<ValueError>([&] { (void)Mask::key_lengths(lengths, 3); }),
            "mask: example 1 has length 4, expected 0 to 3");
}

// huggingface/transformers#27114: twice masked is masked, and nothing more.
TEST(Mask, LeftPaddingAndCausalCombineByAnd) {  // B03
  const Mask mask = Mask::causal() & Mask::key_padding(1, {0, 0, 0, 1, 1});
  EXPECT_EQ(rows(mask, 5, 5), "00000 00000 00000 00010 00011");
}

TEST(Mask, CustomBroadcastsOverBatchAndHeads) {
  const Mask shared = Mask::custom(1, 1, 2, 2, {1, 0, 1, 1});
  EXPECT_EQ(rows(shared, 2, 2, 4, 2), "10 11");
  const Mask per_head = Mask::custom(1, 2, 1, 2, {1, 0, 0, 1});
  EXPECT_EQ(rows(per_head, 1, 2, 3, 0), "10");
  EXPECT_EQ(rows(per_head, 1, 2, 3, 1), "01");
  const Mask per_example = Mask::custom(2, 1, 1, 2, {1, 0, 0, 1});
  EXPECT_EQ(rows(per_example, 1, 2, 1, 5), "01");
  const Mask full = Mask::custom(2, 3, 1, 1, {1, 0, 1, 0, 1, 0});
  EXPECT_EQ(rows(full, 1, 1, 0, 1), "0");
  EXPECT_EQ(rows(full, 1, 1, 1, 1), "1");
}

TEST(Mask, AnyFlagButZeroKeeps) {
  EXPECT_EQ(rows(Mask::custom(1, 1, 1, 3, {2, 0, 255}) & Mask::key_padding(1, {4, 1, 1}), 1, 3),
            "101");
}

TEST(Mask, CustomPartsOfAnyExtentsCombine) {
  Mask mask = Mask::custom(1, 1, 1, 3, {1, 1, 0}) & Mask::custom(1, 1, 1, 3, {0, 1, 1});
  EXPECT_EQ(rows(mask, 1, 3), "010");
  mask &= Mask::custom(1, 2, 1, 3, {1, 1, 1, 1, 0, 1});
  EXPECT_EQ(rows(mask, 1, 3, 0, 0), "010");
  EXPECT_EQ(rows(mask, 1, 3, 0, 1), "000");
}

TEST(Mask, CombiningWithItselfChangesNothing) {
  Mask mask =
      Mask::causal() & Mask::custom(1, 1, 2, 2, {1, 1, 0, 1}) & Mask::key_padding(1, {1, 1});
  const std::string before = rows(mask, 2, 2);
  mask &= mask;
  EXPECT_EQ(rows(mask, 2, 2), before);
  EXPECT_EQ(before, "10 01");
}

TEST(Mask, PaddingOfDifferentExtentsDoesNotCombine) {
  EXPECT_THROW((void)(Mask::key_padding(2, {1, 1, 1, 1}) & Mask::key_padding(1, {1, 1})),
               ShapeError);
  EXPECT_EQ(rows(Mask::key_padding(1, {1, 1, 0}) & Mask::key_padding(1, {0, 1, 1}), 1, 3), "010");
}

TEST(Mask, FillRowEqualsKeepsAndCounts) {
  const Mask mask = Mask::causal() & Mask::window(3) &
                    Mask::key_padding(2, {1, 1, 1, 0, 1, 0, 1, 1, 1, 1}) &
                    Mask::custom(1, 2, 3, 5, Flags{1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1,
                                                   0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1});
  mask.check(2, 2, 3, 5);
  Flags keep(5, 77);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 3; ++i) {
        const std::int64_t count = mask.fill_row(b, h, i, 3, 5, keep);
        std::int64_t expected = 0;
        for (std::int64_t j = 0; j < 5; ++j) {
          const bool kept = mask.keeps(b, h, i, j, 3, 5);
          ASSERT_EQ(keep[static_cast<std::size_t>(j)], kept ? 1 : 0);
          expected += kept;
        }
        ASSERT_EQ(count, expected);
      }
    }
  }
}

TEST(Mask, FillRowOfABandCounts) {
  Flags keep(4, 77);
  EXPECT_EQ((Mask::causal() & Mask::window(2)).fill_row(0, 0, 2, 4, 4, keep), 2);
  EXPECT_EQ(keep, (Flags{0, 1, 1, 0}));
  EXPECT_EQ(Mask::causal().fill_row(0, 0, 0, 6, 4, keep), 0);
  EXPECT_EQ(keep, (Flags{0, 0, 0, 0}));
}

TEST(Mask, CheckNamesWhatDoesNotFit) {
  EXPECT_NO_THROW((Mask::causal() & Mask::window(3)).check(2, 3, 5, 7));
  const Mask padding = Mask::key_padding(2, {1, 1, 1, 1, 1, 1});
  EXPECT_NO_THROW(padding.check(2, 4, 5, 3));
  EXPECT_EQ(message_of<ShapeError>([&] { padding.check(3, 4, 5, 3); }),
            "mask: padding of [batch 2, key 3] does not fit [batch 3, key 3]");
  EXPECT_THROW(padding.check(2, 4, 5, 2), ShapeError);
  const Mask custom = Mask::custom(1, 2, 1, 3, {1, 1, 1, 1, 1, 1});
  EXPECT_NO_THROW(custom.check(7, 2, 1, 3));
  EXPECT_THROW(custom.check(7, 3, 1, 3), ShapeError);
  EXPECT_THROW(custom.check(7, 2, 2, 3), ShapeError);
  EXPECT_THROW(custom.check(7, 2, 1, 2), ShapeError);
}

TEST(Mask, FlagsThatDoNotFillTheExtentsAreAnError) {
  EXPECT_THROW((void)Mask::key_padding(2, {1, 1, 1}), ShapeError);
  EXPECT_THROW((void)Mask::key_padding(0, {}), ShapeError);
  EXPECT_EQ(message_of<ShapeError>([] {
              (void)Mask::custom(1, 2, 2, 2, {1, 1, 1, 1});
            }),
            "mask: 4 flags do not make a mask of [batch 1, heads 2, query 2, key 2]");
}

// nn.MultiheadAttention: true = ignore (rasbt/LLMs-from-scratch#1061).
TEST(Mask, FromIgnoreTurnsTheFlagsAround) {  // B06
  const Flags upper_triangle = {0, 1, 1, 0, 0, 1, 0, 0, 0};
  EXPECT_EQ(rows(Mask::from_ignore(3, 3, upper_triangle), 3, 3), rows(Mask::causal(), 3, 3));
  EXPECT_THROW((void)Mask::from_ignore(2, 3, upper_triangle), ShapeError);
}

TEST(Mask, FromAdditiveKeepsZeroAndIgnoresMinusInfinity) {  // B06
  const float additive[] = {0, kIgnored, -0.0f, 0};
  EXPECT_EQ(rows(Mask::from_additive(2, 2, additive), 2, 2), "10 11");
}

TEST(Mask, FromAdditiveRefusesAnythingElse) {  // B03, B06
  const float ones[] = {0, 0, 0, 1};
  EXPECT_EQ(message_of<ValueError>([&] { (void)Mask::from_additive(2, 2, ones); }),
            "mask: the additive mask holds 1 at [1, 1], expected 0 (keep) or -inf (ignore)");
  for (const float bad : {-1e9f, -1e4f, -kIgnored, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW((void)Mask::from_additive(1, 1, std::span(&bad, 1)), ValueError);
  }
  EXPECT_THROW((void)Mask::from_additive(3, 2, ones), ShapeError);
}

TEST(Mask, PrefixSeesItselfAndTheRestIsCausal) {
  EXPECT_EQ(rows(Mask::prefix(3), 5, 5), "11100 11100 11100 11110 11111");
  EXPECT_EQ(rows(Mask::prefix(0), 3, 3), rows(Mask::causal(), 3, 3));
  EXPECT_EQ(rows(Mask::prefix(3) & Mask::causal(), 4, 4), rows(Mask::causal(), 4, 4));
  EXPECT_TRUE(Mask::prefix(3).is_band());
  EXPECT_FALSE(Mask::prefix(3).is_causal());
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(Mask::prefix(-1)); }),
            "mask: a prefix of -1 keys, expected 0 or more");
}

TEST(Mask, DilatedWindowKeepsEveryOtherKey) {
  const Mask mask = Mask::sparse({.window = 2, .dilation = 2});
  EXPECT_EQ(rows(mask, 6, 6), "101000 010100 101010 010101 001010 000101");
  EXPECT_EQ(rows(mask & Mask::causal(), 2, 6), "001010 000101");
}

TEST(Mask, GlobalTokensSeeAllAndAreSeenByAll) {
  const Mask mask = Mask::sparse({.window = 1, .globals = 1});
  EXPECT_EQ(rows(mask, 4, 4), "1111 1100 1010 1001");
  EXPECT_EQ(rows(mask & Mask::causal(), 4, 4), "1000 1100 1010 1001");
}

// Blocks are drawn by the later block of a pair, so that what is kept does not depend on how many
// keys follow; both ways alike.
TEST(Mask, RandomBlocksAreSymmetricAndKnowNoLength) {
  const Mask mask = Mask::sparse({.random = 1, .block = 2, .seed = 3});
  const std::string longer = rows(mask, 12, 12);
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < 12; ++i)
    for (std::int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(mask.keeps(0, 0, i, j, 12, 12), mask.keeps(0, 0, j, i, 12, 12));
      EXPECT_EQ(mask.keeps(0, 0, i, j, 12, 12), mask.keeps(0, 0, i / 2 * 2, j / 2 * 2, 12, 12));
      if (i < 7 && j < 7) {
        EXPECT_EQ(mask.keeps(0, 0, i, j, 12, 12), mask.keeps(0, 0, i, j, 7, 7));
      }
      kept += mask.keeps(0, 0, i, j, 12, 12) && j <= i ? 1 : 0;
    }
  EXPECT_GE(kept, 12) << "each of six blocks reads one block at or before it";
  EXPECT_NE(rows(Mask::sparse({.random = 1, .block = 2, .seed = 4}), 12, 12), longer);
}

TEST(Mask, DocumentsSeeThemselvesAlone) {
  const Mask mask = Mask::documents(2, {0, 0, 1, 1, 5, 5, 5, 2});
  EXPECT_EQ(rows(mask, 4, 4), "1100 1100 0011 0011");
  EXPECT_EQ(rows(mask, 4, 4, 1), "1110 1110 1110 0001");
  EXPECT_EQ(rows(mask & Mask::causal(), 2, 4, 0), "0010 0011");
  EXPECT_TRUE(mask.is_per_example());
  const Mask both = mask & Mask::documents(2, {0, 1, 1, 1, 0, 0, 0, 0});
  EXPECT_EQ(rows(both, 4, 4), "1000 0100 0011 0011");
  EXPECT_EQ(rows(both, 4, 4, 1), "1110 1110 1110 0001");
  EXPECT_THROW(mask.check(2, 1, 3, 3), ShapeError);
  EXPECT_THROW(static_cast<void>(Mask(mask) & Mask::documents(1, {0, 1, 1, 1})), ShapeError);
}

// However a row is asked for, it is the same row.
TEST(Mask, RowsInPartsAreTheWholeRow) {
  const std::int64_t query = 9, key = 13;
  std::vector<std::int32_t> documents(13);
  for (std::size_t j = 0; j < 13; ++j) documents[j] = static_cast<std::int32_t>(j / 5);
  for (const Mask& mask :
       {Mask::causal() & Mask::window(4), Mask::prefix(6),
        Mask::sparse({.window = 3, .dilation = 2, .globals = 1}) & Mask::causal(),
        Mask::sparse({.window = 1, .random = 2, .block = 3}), Mask::documents(1, documents)}) {
    for (std::int64_t i = 0; i < query; ++i) {
      Flags whole(13);
      const std::int64_t count = mask.fill_row(0, 0, i, query, key, whole);
      EXPECT_EQ(count, std::count(whole.begin(), whole.end(), 1));
      for (std::int64_t first : {0, 2, 5, 11}) {
        Flags part(2);
        mask.fill_row(0, 0, i, query, key, part, first);
        EXPECT_EQ(part, Flags(whole.begin() + first, whole.begin() + first + 2));
      }
      for (std::int64_t j = 0; j < key; ++j)
        EXPECT_EQ(mask.keeps(0, 0, i, j, query, key), whole[static_cast<std::size_t>(j)] != 0);
    }
  }
}

TEST(Mask, PatternsOutOfRangeAreRefused) {
  EXPECT_THROW(static_cast<void>(Mask::sparse({})), ValueError);
  EXPECT_THROW(static_cast<void>(Mask::sparse({.window = 2, .dilation = 0})), ValueError);
  EXPECT_THROW(static_cast<void>(Mask::sparse({.random = 1, .block = 0})), ValueError);
  EXPECT_EQ(message_of<ValueError>([] { static_cast<void>(Mask::sparse({.window = -1})); }),
            "mask: a pattern of window -1, dilation 1, 0 global keys, 0 random blocks of 16 is "
            "none");
}

}  // namespace attune::mask_test
