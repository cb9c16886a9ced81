#include <cmath>
#include <string>
#include <vector>

#include "attune/nn/kv_cache.h"
#include "model/model_test.h"
#include "nn/encoding_test.h"

// The forms of rotary encodings beside rope itself, against numbers worked out apart from this
// code; positional_encoding_test.cpp has rope.
namespace attune::rotary_encoding_test {

Array transformed(const PositionalEncoding& encoding, const Array& x, const Positions& positions,
                  bool key = false) {
  const PositionContext context = context_of(encoding, positions, positions);
  return (key ? encoding.transform_key(x, 1, context) : encoding.transform_query(x, 1, context))
      .value();
}

// x [1, 1, width] of one head at a position.
Array rotated(std::string_view name, const Array& x, std::int32_t position, double extension = 2) {
  Bench bench;
  PositionalConfig config = config_of(x.shape()[2], 1, 2);
  config.extension = extension;
  return transformed(*make(name, bench, config), x, at(position));
}

// 1 in one place.
Array unit(std::int64_t width, std::int64_t place) {
  std::vector<double> values(static_cast<std::size_t>(width), 0);
  values[static_cast<std::size_t>(place)] = 1;
  return Array::from({1, 1, width}, values, DType::float64);
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.at({0, 0, i}) * b.at({0, 0, i});
  return sum;
}

TEST(RopeForms, InterleavedTurnsNeighbours) {
  expect_near(rotated("rope-interleaved", row({1, 2, 3, 4}), 3),
              {-1.272233, -1.838865, 2.878668, 4.088187}, 5.1e-7);
}

TEST(RopeForms, PositionZeroIsTheIdentityAndAllKeepTheNorm) {
  const Array x = random_array({1, 1, 16}, 3);
  for (const char* name : {"rope", "rope-interleaved", "rope-partial", "rope-pi", "rope-ntk"}) {
    SCOPED_TRACE(name);
    expect_near(rotated(name, x, 0), x, 0);
    const Array y = rotated(name, x, 57);
    EXPECT_NEAR(dot(y, y), dot(x, x), 1e-12);
    EXPECT_GT(distance(y, x), 0.1);
  }
}

TEST(RopeForms, ScoresStayThroughAShiftOfAThousand) {
  const Array q = random_array({1, 1, 16}, 3), k = random_array({1, 1, 16}, 4);
  for (const char* name : {"rope", "rope-interleaved", "rope-partial", "rope-pi", "rope-ntk"}) {
    SCOPED_TRACE(name);
    const double near = dot(rotated(name, q, 9), rotated(name, k, 2));
    EXPECT_NEAR(dot(rotated(name, q, 1009), rotated(name, k, 1002)), near, 1e-9);
    EXPECT_GT(std::abs(dot(rotated(name, q, 10), rotated(name, k, 2)) - near), 1e-3);
  }
}

// Rows of a head's query and key maps in another order, [0, 2, 4, ..., 1, 3, 5, ...], make pairs
// of neighbours out of halves.
TEST(RopeForms, InterleavedIsHalfSplitUnderAPermutationOfTheMaps) {
  TransformerConfig config = small_config();
  config.positions = "rope-interleaved";
  Transformer neighbours = random_model(config);
  config.positions = "rope";
  Transformer halves = random_model(config);
  const std::int64_t width = config.n_embd / config.n_head;
  for (Parameter& parameter : halves.parameters()) {
    const Array& from = neighbours.parameters().find(parameter.name())->value();
    const bool is_map = parameter.name().find("attention.query.") != std::string::npos ||
                        parameter.name().find("attention.key.") != std::string::npos;
    if (!is_map) continue;
    std::vector<double> permuted;
    for (std::int64_t r = 0; r < from.shape()[0]; ++r) {
      const std::int64_t place = r % width;
      const std::int64_t source = 2 * (place % (width / 2)) + place / (width / 2);
      const std::vector<double> values =
          rows_of(from, r - place + source, r - place + source + 1).to_vector();
      permuted.insert(permuted.end(), values.begin(), values.end());
    }
    parameter.set_value(Array::from(from.shape(), permuted, from.dtype()));
  }
  const std::vector<std::int32_t> tokens = random_tokens(13);
  expect_near(logits_of(halves, tokens), logits_of(neighbours, tokens), 1e-12);
}

// The values of four features alone, the others as they were.
TEST(RopeForms, PartialTurnsTheFirstQuarter) {
  Array x = random_array({1, 1, 16}, 5);
  std::vector<double> values = x.to_vector();
  std::copy_n(std::vector<double>{1, 2, 3, 4}.begin(), 4, values.begin());
  x = Array::from({1, 1, 16}, values, DType::float64);
  const std::vector<double> turned{-1.413353, 1.879118, -2.828857, 4.058191};
  std::copy_n(turned.begin(), 4, values.begin());
  expect_near(rotated("rope-partial", x, 3), values, 5.1e-7);
}

TEST(RopeForms, InterpolationDividesPositions) {
  expect_near(rotated("rope-pi", row({1, 2, 3, 4}), 6), {-1.413353, 1.879118, -2.828857, 4.058191},
              5.1e-7);
  expect_near(rotated("rope-pi", row({1, 2, 3, 4}), 9, 3),
              {-1.413353, 1.879118, -2.828857, 4.058191}, 5.1e-7);
}

// Bases for an extension of 2: 22081.79 of 16 features, 20945.88 of 32.
TEST(RopeForms, NtkHasAnotherBase) {
  for (const auto& [width, base] : {std::pair{16, 22081.79}, std::pair{32, 20945.88}}) {
    for (std::int64_t k = 0; k < width / 2; ++k) {
      const double angle = 700 * std::pow(base, -2.0 * static_cast<double>(k) / width);
      const Array y = rotated("rope-ntk", unit(width, k), 700);
      EXPECT_NEAR(y.at({0, 0, k}), std::cos(angle), 1e-5) << width << ", pair " << k;
      EXPECT_NEAR(y.at({0, 0, k + width / 2}), std::sin(angle), 1e-5) << width << ", pair " << k;
    }
  }
}

TEST(RopeForms, AnExtensionOfOneIsRope) {
  const Array x = random_array({1, 1, 16}, 3);
  for (const char* name : {"rope-pi", "rope-ntk", "rope-dynamic-ntk"})
    expect_near(rotated(name, x, 700, 1), rotated("rope", x, 700), 1e-12);
}

// --- rope-dynamic-ntk ---

// All of a text at once, [time, width] in every row of x.
Array whole_text(std::int64_t time, std::int64_t trained, const Array& x) {
  Bench bench;
  const auto encoding = make("rope-dynamic-ntk", bench, config_of(x.shape()[2], 1, trained));
  return transformed(*encoding, x, Positions::range(0, time));
}

// 64 tokens where 32 were trained: base 35097.92.
TEST(RopeDynamicNtk, HasTheBaseOfTheLength) {
  const Array ones = Array::full({1, 64, 16}, 1, DType::float64);
  const Array y = whole_text(64, 32, ones);
  for (std::int64_t k = 0; k < 8; ++k) {
    const double angle = 63 * std::pow(35097.92, -2.0 * static_cast<double>(k) / 16);
    EXPECT_NEAR(y.at({0, 63, k}), std::cos(angle) - std::sin(angle), 1e-6) << "pair " << k;
    EXPECT_NEAR(y.at({0, 63, k + 8}), std::cos(angle) + std::sin(angle), 1e-6) << "pair " << k;
  }
}

TEST(RopeDynamicNtk, IsRopeUpToTheTrainedLength) {
  const Array x = random_array({1, 32, 16}, 3);
  Bench bench;
  const auto rope = make("rope", bench, config_of(16, 1, 32));
  expect_near(whole_text(32, 32, x), transformed(*rope, x, Positions::range(0, 32)), 0);
  EXPECT_GT(distance(whole_text(32, 31, x), whole_text(32, 32, x)), 1e-3);
}

// Two texts of one batch have a base each.
TEST(RopeDynamicNtk, EveryRowHasItsOwnLength) {
  Bench bench;
  const auto encoding = make("rope-dynamic-ntk", bench, config_of(16, 1, 4));
  const Array x = random_array({1, 6, 16}, 3);
  std::vector<double> twice = x.to_vector();
  twice.insert(twice.end(), twice.begin(), twice.begin() + 6 * 16);
  Positions both{2, 6, {0, 1, 2, 3, 4, 5, 0, 0, 0, 1, 2, 3}};
  const Array y = transformed(*encoding, Array::from({2, 6, 16}, twice, DType::float64), both);
  expect_near(rows_of(y, 0, 1), transformed(*encoding, x, {1, 6, {0, 1, 2, 3, 4, 5}}), 0);
  expect_near(rows_of(y, 1, 2), transformed(*encoding, x, {1, 6, {0, 0, 0, 1, 2, 3}}), 0);
}

// --- xpos ---

// zeta of 4 features: .285714, .642857. At position 512 a query has it once, a key its inverse.
TEST(XposEncoding, ScalesAreThePapers) {
  Bench bench;
  const auto xpos = make("xpos", bench, config_of(4, 1));
  for (const auto& [place, zeta] : {std::pair{0, 0.285714}, std::pair{1, 0.642857}}) {
    for (const bool key : {false, true}) {
      const Array y = transformed(*xpos, unit(4, place), at(512), key);
      EXPECT_NEAR(std::sqrt(dot(y, y)), key ? 1 / zeta : zeta, 5.1e-6) << place << key;
    }
  }
}

// sum over pairs of zeta^((i - j) / 512) times the pair's rotated product, in a loop of its own.
TEST(XposEncoding, ScoresDecayWithTheDistance) {
  const Array q = random_array({1, 1, 6}, 3), k = random_array({1, 1, 6}, 4);
  Bench bench;
  const auto xpos = make("xpos", bench, config_of(6, 1));
  for (const auto& [i, j] : {std::pair{7, 7}, std::pair{30, 2}, std::pair{1700, 900}}) {
    double expected = 0;
    for (std::int64_t pair = 0; pair < 3; ++pair) {
      const double zeta = (2 * static_cast<double>(pair) + 0.4 * 6) / (1.4 * 6);
      const double angle = (i - j) * std::pow(10000, -2 * static_cast<double>(pair) / 6);
      const double q1 = q.at({0, 0, pair}), q2 = q.at({0, 0, pair + 3});
      const double k1 = k.at({0, 0, pair}), k2 = k.at({0, 0, pair + 3});
      expected += std::pow(zeta, (i - j) / 512.0) *
                  ((q1 * k1 + q2 * k2) * std::cos(angle) + (q2 * k1 - q1 * k2) * -std::sin(angle));
    }
    const Array turned_q = transformed(*xpos, q, at(i));
    EXPECT_NEAR(dot(turned_q, transformed(*xpos, k, at(j), true)), expected, 1e-10)
        << i << ' ' << j;
  }
}

TEST(XposEncoding, RefusesPositionsWhereScalesWouldLeaveFloat32) {
  Bench bench(DType::float32);
  const auto xpos = make("xpos", bench, config_of(4, 1));
  const auto last = static_cast<std::int32_t>(xpos->position_limit() - 1);
  EXPECT_GT(last, 10000);
  const Array x = Array::full({1, 1, 4}, 1, DType::float32);
  for (const bool key : {false, true}) {
    for (const double value : transformed(*xpos, x, at(last), key).to_vector())
      EXPECT_TRUE(std::isnormal(value)) << value;
  }
  expect_throws<ValueError>([&] { static_cast<void>(transformed(*xpos, x, at(last + 1))); },
                            "xpos: position " + std::to_string(last + 1) + " is beyond " +
                                std::to_string(last) + ", where scales would leave float32");
}

TEST(RopeForms, OddHeadsAreRefusedByName) {
  for (const char* name : {"rope-interleaved", "rope-pi", "rope-ntk", "rope-dynamic-ntk", "xpos"}) {
    Bench bench;
    expect_throws<ConfigError>(
        [&] { static_cast<void>(make(name, bench, config_of(6, 2))); },
        std::string("--pos ") + name + ": needs an even head width, not 3 (--n-embd / --n-head)");
  }
}

}  // namespace attune::rotary_encoding_test
