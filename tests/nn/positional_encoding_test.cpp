#include "attune/nn/positional_encoding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "attune/nn/kv_cache.h"
#include "attune/ops/reduce.h"
#include "nn/encoding_test.h"

// Values of single schemes against numbers of their papers and reference implementations, worked
// out apart from this code; rotary_encoding_test.cpp, learned_bias_encoding_test.cpp and
// content_encoding_test.cpp go on with others, and tests/model/positional_conformance_test.cpp has
// what all must keep.
namespace attune::positional_encoding_test {

constexpr DType kDouble = DType::float64;

// --- none ---

TEST(NoEncoding, AddsNothing) {
  Bench bench;
  const auto none = make("none", bench, config_of(4, 2));
  const Array x = random_array({1, 3, 4}, 1);
  const PositionContext context = context_of(*none, Positions::range(0, 3), Positions::range(0, 3));
  EXPECT_TRUE(context.score_bias.is_null());
  EXPECT_TRUE(context.distance_table.is_null());
  expect_near(none->embed(x, context.query, {}).value(), x, 0);
  expect_near(none->transform_query(x, 2, context).value(), x, 0);
  expect_near(none->transform_key(x, 2, context).value(), x, 0);
  EXPECT_EQ(bench.store.count(), 0);
}

// --- learned ---

TEST(LearnedEncoding, AddsTheRowOfThePosition) {
  Bench bench;
  const auto learned = make("learned", bench, config_of(3, 1, 5));
  const Array& table = bench.value("position.weight");
  ASSERT_EQ(table.shape(), (Shape{5, 3}));
  const Positions positions{2, 2, {4, 0, 1, 1}};
  const Array y = learned->embed(Array::full({2, 2, 3}, 10, kDouble), positions, {}).value();
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 2; ++t) {
      for (std::int64_t c = 0; c < 3; ++c) {
        EXPECT_EQ(y.at({b, t, c}), 10 + table.at({positions.row(b)[t], c}));
      }
    }
  }
}

TEST(LearnedEncoding, GradientAddsUpOverUsesAndIsZeroForUnusedRows) {
  Bench bench;
  const auto learned = make("learned", bench, config_of(2, 1, 4));
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Var y =
      sum(learned->embed(Array::zeros({3, 2, 2}, kDouble), Positions{1, 2, {2, 0}}, pass));
  const Array gradient = tape.backward(y)[*bench.store.find("position.weight")];
  expect_near(gradient, {3, 3, 0, 0, 3, 3, 0, 0}, 0);
}

TEST(LearnedEncoding, StartsNormalWithTheEmbeddingsDeviation) {
  Bench bench(kDouble, 0.02);
  static_cast<void>(make("learned", bench, config_of(100, 1, 100)));
  double square = 0;
  for (const double value : bench.value("position.weight").to_vector()) square += value * value;
  EXPECT_NEAR(std::sqrt(square / 1e4), 0.02, 4 * 0.02 / std::sqrt(2e4));
}

// B16: the last row is usable, the one behind it an error that names both numbers.
TEST(LearnedEncoding, RefusesPositionsOutsideItsTable) {
  Bench bench;
  const auto learned = make("learned", bench, config_of(2, 1, 4));
  const Array x = Array::zeros({1, 1, 2}, kDouble);
  EXPECT_NO_THROW(static_cast<void>(learned->embed(x, at(3), {})));
  expect_throws<ValueError>([&] { static_cast<void>(learned->embed(x, at(4), {})); },
                            "learned positions: position 4 is outside the table of --block-size 4");
  EXPECT_THROW(static_cast<void>(learned->embed(x, at(-1), {})), ValueError);
  EXPECT_EQ(learned->position_limit(), 4);
}

// --- sinusoidal: Vaswani et al. 2017, values from the formula in another language; B15 ---

TEST(SinusoidalEncoding, HasThePapersInterleavedLayout) {
  Bench bench;
  const auto sinusoidal = make("sinusoidal", bench, config_of(4, 1, 2));
  const Array zero = Array::zeros({1, 1, 4}, kDouble);
  const std::map<std::int32_t, std::vector<double>> golden = {
      {0, {0, 1, 0, 1}},
      {1, {0.841471, 0.540302, 0.010000, 0.999950}},
      {2, {0.909297, -0.416147, 0.019999, 0.999800}},  // past the table of trained positions
      {3, {0.141120, -0.989992, 0.029996, 0.999550}}};
  for (const auto& [position, values] : golden) {
    expect_near(sinusoidal->embed(zero, at(position), {}).value(), values, 5.1e-7);
  }
}

TEST(SinusoidalEncoding, MultipliesTokensByTheRootOfTheWidth) {
  Bench bench;
  const auto sinusoidal = make("sinusoidal", bench, config_of(16, 1));
  const Array one = sinusoidal->embed(Array::full({1, 1, 16}, 1, kDouble), at(3), {}).value();
  const Array zero = sinusoidal->embed(Array::zeros({1, 1, 16}, kDouble), at(3), {}).value();
  for (std::int64_t c = 0; c < 16; ++c) {
    EXPECT_NEAR(one.at({0, 0, c}) - zero.at({0, 0, c}), 4, 1e-14);
  }
}

TEST(PositionTables, TakeAtMost64MebibytesWhateverTheContext) {
  for (const char* name : {"sinusoidal", "rope"}) {
    Bench bench(DType::float32);
    const std::int64_t before = buffer_pool::statistics().live_bytes;
    const auto encoding = make(name, bench, config_of(64, 1, 1 << 20));
    const std::int64_t taken = buffer_pool::statistics().live_bytes - before;
    EXPECT_GT(taken, 0) << name;
    EXPECT_LE(taken, std::int64_t{1} << 26) << name;
  }
}

// --- rope: half-split pairs (GPT-NeoX, Llama); B10, B11 ---

Array rotated(std::initializer_list<double> x, std::int32_t position) {
  Bench bench;
  const auto width = static_cast<std::int64_t>(x.size());
  const auto rope = make("rope", bench, config_of(width, 1, 2));
  return rope->transform_query(row(x), 1, context_of(*rope, at(position), at(position))).value();
}

TEST(RopeEncoding, RotatesHalfSplitPairs) {
  expect_near(rotated({1, 2, 3, 4}, 1), {-1.984111, 1.959901, 2.462378, 4.019800}, 5.1e-7);
  expect_near(rotated({1, 2, 3, 4}, 3), {-1.413353, 1.879118, -2.828857, 4.058191}, 5.1e-7);
}

TEST(RopeEncoding, PositionZeroIsTheIdentity) {
  expect_near(rotated({1, 2, 3, 4}, 0), {1, 2, 3, 4}, 0);
}

TEST(RopeEncoding, KeepsTheNorm) {
  double square = 0;
  for (const double value : rotated({1, 2, 3, 4}, 57).to_vector()) square += value * value;
  EXPECT_NEAR(square, 30, 1e-12);
}

TEST(RopeEncoding, RemembersNoEarlierOffset) {  // B10
  Bench bench;
  const auto rope = make("rope", bench, config_of(2, 1, 2));
  for (const std::int32_t position : {0, 3, 0, 1}) {
    const Array y =
        rope->transform_key(row({1, 0}), 1, context_of(*rope, at(position), at(position))).value();
    expect_near(y, {std::cos(position), std::sin(position)}, 1e-15);
  }
}

TEST(RopeEncoding, ScoresDependOnTheDistanceAlone) {
  for (const std::int32_t shift : {0, 3, 100}) {
    const std::vector<double> q = rotated({1, 2, 3, 4}, 2 + shift).to_vector();
    const std::vector<double> k = rotated({4, 3, 2, 1}, shift).to_vector();
    double dot = 0;
    for (std::size_t i = 0; i < 4; ++i) dot += q[i] * k[i];
    EXPECT_NEAR(dot, -3.456429, 5.1e-7) << shift;
  }
}

TEST(RopeEncoding, RotatesEveryHeadAlike) {
  Bench bench;
  const auto rope = make("rope", bench, config_of(8, 2));
  const Array y =
      rope->transform_query(row({1, 2, 3, 4, 1, 2, 3, 4}), 2, context_of(*rope, at(3), at(3)))
          .value();
  expect_near(y,
              {-1.413353, 1.879118, -2.828857, 4.058191, -1.413353, 1.879118, -2.828857, 4.058191},
              5.1e-7);
}

// The keys of a pass with a cache stand where its own tokens stand, also where as many tokens are
// cached as are new.
TEST(RopeEncoding, NewKeysAreRotatedByTheirOwnPositions) {
  Bench bench;
  const auto rope = make("rope", bench, config_of(4, 1));
  PositionContext context;
  context.query = at(3);
  context.new_key = at(3);
  KvCache cache(1, 1, 1, 1, 1, kDouble);
  cache.advance(at(0));
  context.cache = &cache;
  rope->prepare(context, {});
  expect_near(rope->transform_key(row({1, 2, 3, 4}), 1, context).value(),
              {-1.413353, 1.879118, -2.828857, 4.058191}, 5.1e-7);
}

// --- alibi: the author's list; B13 ---

TEST(AlibiEncoding, SlopesAreTheAuthorsForEveryHeadCount) {
  const std::map<std::int64_t, std::vector<double>> golden = {
      {1, {1.0 / 256}},
      {2, {1.0 / 16, 1.0 / 256}},
      {3, {1.0 / 16, 1.0 / 256, 1.0 / 4}},
      {4, {0.25, 0.0625, 0.015625, 0.00390625}},
      {5, {0.25, 0.0625, 0.015625, 0.00390625, 0.5}},
      {6, {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125}},
      {8, {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256}},
      {12,
       {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256, 0.707107,
        0.353553, 0.176777, 0.088388}}};
  for (const auto& [heads, slopes] : golden) {
    Bench bench;
    const auto alibi = make("alibi", bench, config_of(2 * heads, heads));
    const Array bias = bias_of(context_of(*alibi, at(1), at(0)));
    for (std::int64_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(bias.at({0, h, 0, 0}), -slopes[static_cast<std::size_t>(h)], 5.1e-7)
          << heads << " heads, head " << h;
    }
  }
}

TEST(AlibiEncoding, OneCachedQuerySeesItsDistances) {  // B13
  Bench bench;
  const auto alibi = make("alibi", bench, config_of(16, 8));
  const Array bias = bias_of(context_of(*alibi, at(4), Positions::range(0, 5)));
  ASSERT_EQ(bias.shape(), (Shape{1, 8, 1, 5}));
  expect_near(Array::from({5},
                          std::vector<double>{bias.at({0, 0, 0, 0}), bias.at({0, 0, 0, 1}),
                                              bias.at({0, 0, 0, 2}), bias.at({0, 0, 0, 3}),
                                              bias.at({0, 0, 0, 4})},
                          kDouble),
              {-2, -1.5, -1, -0.5, 0}, 0);
}

TEST(PositionContext, DistancesRunFromTheFarthestKeyBehindToTheFarthestAhead) {
  PositionContext context;
  context.query = {2, 2, {4, 5, 2, 9}};
  context.new_key = Positions::range(1, 7);
  EXPECT_EQ(context.distances().first, 1 - 9);
  EXPECT_EQ(context.distances().count, (7 - 2) - (1 - 9) + 1);
  context.new_key = {};
  EXPECT_EQ(context.distances().count, 0);
}

TEST(AlibiEncoding, IsSymmetricAheadAndBehind) {
  Bench bench;
  const auto alibi = make("alibi", bench, config_of(4, 2));
  const Array bias = bias_of(context_of(*alibi, Positions::range(0, 3), Positions::range(0, 3)));
  EXPECT_EQ(bias.at({0, 1, 0, 2}), bias.at({0, 1, 2, 0}));
  EXPECT_LT(bias.at({0, 1, 0, 2}), 0);
}

// --- t5: buckets of the authors' code; B14 ---

// The bucket of key position - query position, read from a table that holds its own row numbers.
std::int64_t bucket(bool causal, std::int32_t offset) {
  Bench bench;
  PositionalConfig config = config_of(4, 2);
  config.causal = causal;
  const auto t5 = make("t5", bench, config);
  std::vector<double> numbers;
  for (int b = 0; b < 32; ++b) {
    numbers.push_back(b);
    numbers.push_back(100 + b);
  }
  bench.store.find("position.weight")->set_value(Array::from({32, 2}, numbers, kDouble));
  const Array bias = bias_of(context_of(*t5, at(5000), at(5000 + offset)));
  EXPECT_EQ(bias.at({0, 1, 0, 0}), 100 + bias.at({0, 0, 0, 0}));
  return static_cast<std::int64_t>(bias.at({0, 0, 0, 0}));
}

TEST(T5Encoding, CausalBucketsAreTheAuthors) {
  const std::map<std::int32_t, std::int64_t> golden = {{0, 0},    {1, 1},    {15, 15},  {16, 16},
                                                       {17, 16},  {20, 17},  {30, 20},  {50, 24},
                                                       {100, 30}, {120, 31}, {130, 31}, {1000, 31}};
  for (const auto& [distance, expected] : golden) {
    EXPECT_EQ(bucket(true, -distance), expected) << distance;
  }
  EXPECT_EQ(bucket(true, 1), 0);
  EXPECT_EQ(bucket(true, 400), 0);
}

TEST(T5Encoding, CausalBucketsBeginWhereTheAuthorsDo) {
  const std::vector<std::int32_t> starts = {16, 19, 21, 24, 27, 31, 35, 40,
                                            46, 52, 59, 67, 77, 87, 99, 113};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto expected = static_cast<std::int64_t>(16 + i);
    EXPECT_EQ(bucket(true, -starts[i]), expected);
    EXPECT_EQ(bucket(true, -starts[i] + 1), expected - 1);
  }
}

TEST(T5Encoding, BidirectionalBucketsAreTheAuthors) {
  const std::map<std::int32_t, std::int64_t> golden = {
      {0, 0},  {-1, 1}, {-7, 7}, {-10, 8}, {-20, 10}, {-100, 15}, {-1000, 15},
      {1, 17}, {7, 23}, {9, 24}, {20, 26}, {100, 31}, {1000, 31}};
  for (const auto& [offset, expected] : golden) {
    EXPECT_EQ(bucket(false, offset), expected) << offset;
  }
}

TEST(T5Encoding, BidirectionalBucketsBeginWhereTheAuthorsDo) {
  const std::vector<std::int32_t> starts = {8, 12, 16, 23, 32, 46, 64, 91};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto expected = static_cast<std::int64_t>(8 + i);
    EXPECT_EQ(bucket(false, -starts[i]), expected);
    EXPECT_EQ(bucket(false, -starts[i] + 1), expected - 1);
    EXPECT_EQ(bucket(false, starts[i]), 16 + expected);
  }
}

TEST(T5Encoding, StartsAtZeroAndDoesNotDecay) {
  Bench bench;
  const auto t5 = make("t5", bench, config_of(4, 2));
  const Parameter& table = *bench.store.find("position.weight");
  expect_near(table.value(), std::vector<double>(64, 0), 0);
  EXPECT_FALSE(table.options().decays);
}

// --- the registry ---

TEST(EncodingRegistry, OddWidthsAreRefusedByThoseThatPairFeatures) {  // B11, B15
  Bench bench;
  expect_throws<ConfigError>([&] { static_cast<void>(make("sinusoidal", bench, config_of(5, 1))); },
                             "--pos sinusoidal: needs an even --n-embd, not 5");
  expect_throws<ConfigError>([&] { static_cast<void>(make("rope", bench, config_of(6, 2))); },
                             "--pos rope: needs an even head width, not 3 (--n-embd / --n-head)");
}

TEST(EncodingRegistry, UnknownNameIsNamedWithTheNearest) {
  Bench bench;
  try {
    static_cast<void>(make("alibbi", bench, config_of(4, 2)));
    FAIL() << "did not throw";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--pos: 'alibbi' is unknown"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("alibi"), std::string::npos);
  }
}

// A scheme that is registered without numbers of its own in this file fails here.
TEST(EncodingRegistry, EverySchemeHasItsValuesTestedAbove) {
  const std::map<std::string, std::string> suites = {{"none", "NoEncoding"},
                                                     {"learned", "LearnedEncoding"},
                                                     {"sinusoidal", "SinusoidalEncoding"},
                                                     {"rope", "RopeEncoding"},
                                                     {"alibi", "AlibiEncoding"},
                                                     {"t5", "T5Encoding"},
                                                     {"rope-interleaved", "RopeForms"},
                                                     {"rope-partial", "RopeForms"},
                                                     {"rope-pi", "RopeForms"},
                                                     {"rope-ntk", "RopeForms"},
                                                     {"rope-dynamic-ntk", "RopeDynamicNtk"},
                                                     {"xpos", "XposEncoding"},
                                                     {"kerple", "KerpleEncoding"},
                                                     {"kerple-power", "KerpleEncoding"},
                                                     {"fire", "FireEncoding"},
                                                     {"shaw", "ShawEncoding"},
                                                     {"transformer-xl", "TransformerXlEncoding"},
                                                     {"cope", "CopeEncoding"}};
  for (const EncodingInfo& info : list_encodings()) {
    const auto suite = suites.find(info.name);
    ASSERT_NE(suite, suites.end()) << "no values for '" << info.name << "'";
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    bool found = false;
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      found = found || all.GetTestSuite(i)->name() == suite->second;
    }
    EXPECT_TRUE(found) << suite->second;
    Bench bench;
    EXPECT_EQ(make(info.name, bench, config_of(8, 2))->name(), info.name);
    EXPECT_FALSE(info.description.empty());
  }
}

}  // namespace attune::positional_encoding_test
