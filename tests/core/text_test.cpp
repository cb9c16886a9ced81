#include "attune/core/text.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>
#include <locale>

#include "attune/core/error.h"

namespace attune::text_test {

using Names = std::vector<std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// While it lives, streams write 1.000,5 for 1000.5, as in much of Europe.
class CommaLocale final {
 public:
  CommaLocale() : before_(std::locale::global(std::locale(std::locale(), new Commas))) {
    std::setlocale(LC_NUMERIC, "de_DE.UTF-8");  // where the system has it
  }
  ~CommaLocale() {
    std::locale::global(before_);
    std::setlocale(LC_NUMERIC, "C");
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

 private:
  class Commas final : public std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::locale before_;
};

TEST(ParseInteger, TakesTheWholeText) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-5"), -5);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

// jarro2783/cxxopts#290 (out of range accepted) and #78 (junk parsed as a number).
TEST(ParseInteger, RefusesJunkAndOverflow) {  // B45
  for (const char* junk : {"", " ", "test", "2.5", "5x", " 5", "5 ", "+5", "0x10", "1e3", "-",
                           "9223372036854775808", "28446744073709551616"}) {
    EXPECT_EQ(parse_integer(junk), std::nullopt) << junk;
  }
}

TEST(ParseFloat, TakesTheWholeText) {
  EXPECT_EQ(parse_float("0.5"), 0.5);
  EXPECT_EQ(parse_float("-3e-4"), -3e-4);
  EXPECT_EQ(parse_float("7"), 7.0);
  EXPECT_EQ(parse_float("1E2"), 100.0);
}

TEST(ParseFloat, RefusesJunkOverflowAndNonFinite) {  // B45
  for (const char* junk : {"", "abc", "1e", "0,5", "1.5x", " 1", "1 ", "nan", "NaN", "-nan", "inf",
                           "-inf", "infinity", "1e400", "-1e400", "0x1p3", "--1", "."}) {
    EXPECT_EQ(parse_float(junk), std::nullopt) << junk;
  }
}

TEST(ParseBool, TakesWordsInAnyCase) {
  for (const char* word : {"true", "TRUE", "On", "yes", "1"}) EXPECT_EQ(parse_bool(word), true);
  for (const char* word : {"false", "oFF", "No", "0"}) EXPECT_EQ(parse_bool(word), false);
  for (const char* junk : {"", "2", "y", "truee", " true"}) {
    EXPECT_EQ(parse_bool(junk), std::nullopt) << junk;
  }
}

TEST(ParseDuration, KnowsSecondsMinutesAndHours) {
  EXPECT_EQ(parse_duration("90"), 90.0);
  EXPECT_EQ(parse_duration("90s"), 90.0);
  EXPECT_EQ(parse_duration("3m"), 180.0);
  EXPECT_EQ(parse_duration("1.5h"), 5400.0);
  EXPECT_EQ(parse_duration("0"), 0.0);
}

TEST(ParseDuration, RefusesJunkNegativeAndInfinite) {
  for (const char* junk : {"", "s", "h", "-1", "-1s", "-0", "3 m", "3d", "3ms", "inf", "infh",
                           "1e308h", "nan", "1m30s"}) {
    EXPECT_EQ(parse_duration(junk), std::nullopt) << junk;
  }
}

TEST(FormatFloat, IsTheShortestTextThatReadsBack) {
  EXPECT_EQ(format_float(0.001), "0.001");
  EXPECT_EQ(format_float(1e-8), "1e-08");
  EXPECT_EQ(format_float(0.1), "0.1");
  EXPECT_EQ(format_float(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(format_float(0), "0");
  EXPECT_EQ(format_float(-0.0), "-0");
  for (const double x : {1.0 / 3, 6.02e23, -std::numeric_limits<double>::min(),
                         std::numeric_limits<double>::max(), 5e-324}) {
    EXPECT_EQ(parse_float(format_float(x)), x);
  }
}

TEST(FormatFloat, NamesNonFiniteNumbers) {
  EXPECT_EQ(format_float(kInfinity), "inf");
  EXPECT_EQ(format_float(-kInfinity), "-inf");
  EXPECT_EQ(format_float(std::nan("")), "nan");
  EXPECT_EQ(format_float(-std::nan("")), "nan");
}

TEST(FormatDuration, ChoosesTheUnit) {
  EXPECT_EQ(format_duration(0), "0.0s");
  EXPECT_EQ(format_duration(12.34), "12.3s");
  EXPECT_EQ(format_duration(245), "4m05s");
  EXPECT_EQ(format_duration(2 * 3600 + 3 * 60), "2h03m");
  EXPECT_EQ(format_duration(100 * 3600), "100h00m");
}

TEST(FormatDuration, RoundsIntoTheNextUnit) {
  EXPECT_EQ(format_duration(59.94), "59.9s");
  EXPECT_EQ(format_duration(59.96), "1m00s");
  EXPECT_EQ(format_duration(119.7), "2m00s");
  EXPECT_EQ(format_duration(3599.7), "1h00m");
  EXPECT_EQ(format_duration(7199), "2h00m");
}

TEST(FormatDuration, WhatIsNoTimeIsAQuestionMark) {
  for (const double x : {-1.0, kInfinity, std::nan(""), 1e300}) EXPECT_EQ(format_duration(x), "?");
}

TEST(FormatCount, GroupsByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(804096), "804,096");
  EXPECT_EQ(format_count(-999), "-999");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

// skystrife/cpptoml#45, DaveGamble/cJSON#145: a locale with a decimal comma changes neither reading
// nor writing.
TEST(Text, NumbersDoNotDependOnTheLocale) {  // B45
  const CommaLocale locale;
  EXPECT_EQ(parse_float("0.5"), 0.5);
  EXPECT_EQ(parse_float("0,5"), std::nullopt);
  EXPECT_EQ(parse_duration("1.5m"), 90.0);
  EXPECT_EQ(format_float(0.5), "0.5");
  EXPECT_EQ(format_float(1000), "1000");
  EXPECT_EQ(format_duration(12.34), "12.3s");
  EXPECT_EQ(format_count(1000), "1,000");
}

TEST(DecodeUtf8, ReadsSequencesOfEveryLength) {
  std::optional<std::size_t> bad = 99;
  EXPECT_EQ(decode_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", &bad),
            (std::vector<char32_t>{'a', 0xe9, 0x20ac, 0x1f600, 'z'}));
  EXPECT_EQ(bad, std::nullopt);
  EXPECT_TRUE(decode_utf8("", &bad).empty());
  EXPECT_EQ(decode_utf8(std::string_view("\0", 1), &bad), std::vector<char32_t>{0});
  EXPECT_EQ(bad, std::nullopt);
}

TEST(DecodeUtf8, TellsTheOffsetOfMalformedBytes) {
  const struct {
    const char* what;
    std::string_view bytes;
    std::size_t offset;
  } cases[] = {
      {"lone continuation", "ab\x80", 2},
      {"lead 0xff", "\xff", 0},
      {"cut off", "a\xe2\x82", 1},
      {"lead then letter", "\xc3(", 0},
      {"overlong slash", "\xc0\xaf", 0},
      {"overlong three", "\xe0\x80\xaf", 0},
      {"overlong four", "\xf0\x80\x80\xaf", 0},
      {"surrogate", "xyz\xed\xa0\x80", 3},
      {"beyond 10ffff", "\xf4\x90\x80\x80", 0},
      {"five bytes", "\xf8\x88\x80\x80\x80", 0},
  };
  for (const auto& c : cases) {
    std::optional<std::size_t> bad;
    EXPECT_EQ(decode_utf8(c.bytes, &bad).size(), c.offset) << c.what;
    EXPECT_EQ(bad, c.offset) << c.what;
  }
  EXPECT_EQ(decode_utf8("a\xff", nullptr).size(), 1u);
}

TEST(EncodeUtf8, InvertsDecodingForEveryCodePoint) {
  std::string bytes;
  std::vector<char32_t> code_points;
  for (char32_t c = 0; c <= 0x10ffff; c += c < 0x1000 ? 1 : 61) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    bytes += encode_utf8(c);
    code_points.push_back(c);
  }
  std::optional<std::size_t> bad;
  EXPECT_EQ(decode_utf8(bytes, &bad), code_points);
  EXPECT_EQ(bad, std::nullopt);
  EXPECT_EQ(encode_utf8(0x20ac), "\xe2\x82\xac");
  EXPECT_EQ(encode_utf8(0x10ffff), "\xf4\x8f\xbf\xbf");
}

TEST(EncodeUtf8, RefusesWhatIsNoCodePoint) {
  EXPECT_THROW((void)encode_utf8(0xd800), ValueError);
  EXPECT_THROW((void)encode_utf8(0x110000), ValueError);
}

TEST(Nearest, FindsTypingErrors) {
  const Names options = {"--n-layer", "--n-head", "--dropout", "--max-iters"};
  EXPECT_EQ(nearest("--n-layr", options), Names{"--n-layer"});   // left out
  EXPECT_EQ(nearest("--dorpout", options), Names{"--dropout"});  // swapped
  EXPECT_EQ(nearest("--max-itesr", options), Names{"--max-iters"});
  EXPECT_EQ(nearest("--droppout", options), Names{"--dropout"});  // doubled
}

TEST(Nearest, FindsBeginnings) {
  const Names options = {"--warmup-iters", "--weight-decay", "--n-layer", "--n-head"};
  EXPECT_EQ(nearest("--warm", options), Names{"--warmup-iters"});
  EXPECT_EQ(nearest("--n", options), (Names{"--n-head", "--n-layer"}));
  EXPECT_EQ(nearest("--n-layer-norm", options), Names{"--n-layer"});
}

TEST(Nearest, PutsTheNearestFirstAndKeepsTheOrderOfTies) {
  const Names names = {"copyxx", "copyy", "copyz", "copyw"};
  EXPECT_EQ(nearest("copyv", names), (Names{"copyy", "copyz", "copyw"}));
  EXPECT_EQ(nearest("copyx", names, 2), (Names{"copyxx", "copyy"}));
}

TEST(Nearest, FindsNothingFarAway) {
  const Names names = {"copy", "reverse", "sort"};
  EXPECT_TRUE(nearest("induction", names).empty());
  EXPECT_TRUE(nearest("", names).empty());
  EXPECT_TRUE(nearest("--", names).empty());
  EXPECT_TRUE(nearest("x", names).empty());
  EXPECT_TRUE(nearest("copy", {}).empty());
  EXPECT_TRUE(nearest("copy", names, 0).empty());
}

// Within the time of a test, as a table of distances would not be.
TEST(Nearest, MeasuresNoDistanceOfAWordThatIsFarTooLong) {
  const std::string tail(std::size_t{1} << 26, 'x');
  EXPECT_EQ(nearest("--n-head" + tail, Names{"--n-layer", "--n-head"}), Names{"--n-head"});
  EXPECT_TRUE(nearest(tail, Names{"--n-layer", "--n-head"}).empty());
}

TEST(Printable, EscapesWhatWouldEndALine) {
  EXPECT_EQ(printable(std::string_view("a\n\0\x7f\x1b\xc3\xa9 b", 9)),
            "a\\x0a\\x00\\x7f\\x1b\xc3\xa9 b");
  EXPECT_EQ(printable(""), "");
}

TEST(DidYouMean, IsAPhraseForAnErrorMessage) {
  EXPECT_EQ(did_you_mean("--n", Names{"--n-layer", "--n-head"}),
            "; did you mean --n-head or --n-layer?");
  EXPECT_EQ(did_you_mean("copi", Names{"copy", "sort"}), "; did you mean copy?");
  EXPECT_EQ(did_you_mean("copv", Names{"copy", "copx", "copw"}),
            "; did you mean copy, copx or copw?");
  EXPECT_EQ(did_you_mean("induction", Names{"copy"}), "");
}

}  // namespace attune::text_test
