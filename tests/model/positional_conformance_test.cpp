#include <algorithm>
#include <cctype>
#include <string>

#include "attune/ops/unary.h"
#include "model/model_test.h"

// What every positional encoding must keep, whichever are registered: the suite is made from
// list_encodings(), so that a new scheme is tested from the day it is registered.
namespace attune::positional_conformance_test {

constexpr std::int64_t kTime = 13;

class PositionalConformance : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static TransformerConfig config(const std::string& mask = "causal") {
    TransformerConfig config = small_config();
    config.positions = GetParam();
    config.mask = mask;
    return config;
  }
  [[nodiscard]] static bool is_causal_only() {
    const std::vector<EncodingInfo> all = list_encodings();
    return std::ranges::find(all, GetParam(), &EncodingInfo::name)->causal_only;
  }
  // A shift that the scheme's positions allow.
  [[nodiscard]] static std::int32_t shift_of(const Transformer& model) {
    const std::int64_t limit = model.encoding().position_limit();
    return static_cast<std::int32_t>(limit > 0 ? limit - kTime : 1000);
  }
};

TEST_P(PositionalConformance, TokenByTokenEqualsOnePass) {  // B05
  const Transformer model = random_model(config());
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  expect_near(cached_logits(model, tokens, 1), logits_of(model, tokens), 1e-12);
}

TEST_P(PositionalConformance, ChunksEqualOnePass) {  // B05
  const Transformer model = random_model(config());
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  expect_near(cached_logits(model, tokens, 5), logits_of(model, tokens), 1e-12);
}

// As many tokens as take several blocks of a cache, in two examples.
TEST_P(PositionalConformance, LongBatchesThroughACacheEqualOnePass) {
  constexpr std::int64_t kLong = 140;
  TransformerConfig longer = config();
  longer.block_size = kLong;
  for (const DType dtype : {DType::float64, DType::float32}) {
    const Transformer model = random_model(longer, dtype);
    const std::vector<std::int32_t> tokens = random_tokens(2 * kLong);
    const Array whole = model.logits({tokens, 2, kLong}, {}).value();
    for (const std::int64_t chunk : {1, 50}) {
      KvCache cache = model.make_cache(2, kLong);
      Pass pass;
      pass.cache = &cache;
      for (std::int64_t begin = 0; begin < kLong; begin += chunk) {
        const std::int64_t end = std::min(begin + chunk, kLong);
        std::vector<std::int32_t> part(tokens.begin() + begin, tokens.begin() + end);
        part.insert(part.end(), tokens.begin() + kLong + begin, tokens.begin() + kLong + end);
        expect_near(model.logits({part, 2, end - begin}, pass).value(),
                    columns_of(whole, begin, end), dtype == DType::float64 ? 1e-12 : 1e-4);
      }
    }
  }
}

TEST_P(PositionalConformance, ShiftingAllPositionsChangesLogitsOnlyWhereDeclared) {
  const Transformer model = random_model(config());
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Positions shifted = Positions::range(shift_of(model), kTime);
  Pass pass;
  pass.positions = &shifted;
  const double change = distance(logits_of(model, tokens, pass), logits_of(model, tokens));
  if (model.encoding().is_shift_invariant()) {
    EXPECT_LE(change, 1e-9);
  } else {
    EXPECT_GT(change, 1e-3);
  }
}

// Without a mask nothing but the encoding knows the order: the last token's logits then depend on
// the positions of the others, unless it does not read them.
TEST_P(PositionalConformance, OrderIsKnownWithoutAMask) {
  if (is_causal_only()) GTEST_SKIP() << "for causal models alone";
  const Transformer model = random_model(config("none"));
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  Positions swapped = Positions::range(0, kTime);
  std::swap(swapped.values[0], swapped.values[7]);
  Pass pass;
  pass.positions = &swapped;
  const double change = distance(logits_of(model, tokens, pass), logits_of(model, tokens));
  if (!model.encoding().reads_positions()) {
    EXPECT_EQ(change, 0);
  } else {
    EXPECT_GT(change, 1e-3);
  }
}

// Positions travel with their tokens: a permuted sequence with permuted positions is the same bag.
TEST_P(PositionalConformance, PermutingTokensWithTheirPositionsPermutesLogits) {
  if (is_causal_only()) GTEST_SKIP() << "for causal models alone";
  const Transformer model = random_model(config("none"));
  std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Array before = logits_of(model, tokens);
  Positions positions = Positions::range(0, kTime);
  std::reverse(tokens.begin(), tokens.end());
  std::reverse(positions.values.begin(), positions.values.end());
  Pass pass;
  pass.positions = &positions;
  const Array after = logits_of(model, tokens, pass);
  for (std::int64_t t = 0; t < kTime; ++t) {
    expect_near(columns_of(after, kTime - 1 - t, kTime - t), columns_of(before, t, t + 1), 1e-12);
  }
}

// Examples of 13, 9 and 4 tokens, padded on the left to 13; padding stands at position 0.
TEST_P(PositionalConformance, LeftPaddedBatchEqualsUnpaddedRuns) {
  const Transformer model = random_model(config());
  const std::vector<std::int64_t> lengths = {13, 9, 4};
  const std::vector<std::int32_t> tokens = random_tokens(3 * kTime);
  Positions positions{3, kTime, {}};
  std::vector<std::uint8_t> keep;
  for (const std::int64_t length : lengths) {
    for (std::int64_t t = 0; t < kTime; ++t) {
      const std::int64_t place = t - (kTime - length);
      positions.values.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(place, 0)));
      keep.push_back(place >= 0 ? 1 : 0);
    }
  }
  const Mask padding = Mask::key_padding(3, keep);
  Pass pass;
  pass.positions = &positions;
  pass.mask = &padding;
  const Array padded = model.logits({tokens, 3, kTime}, pass).value();
  for (std::int64_t b = 0; b < 3; ++b) {
    const std::int64_t begin = kTime - lengths[static_cast<std::size_t>(b)];
    const std::vector<std::int32_t> real(tokens.begin() + b * kTime + begin,
                                         tokens.begin() + (b + 1) * kTime);
    expect_near(columns_of(rows_of(padded, b, b + 1), begin, kTime), logits_of(model, real), 1e-12);
  }
}

// The same batch through a cache: three tokens first, then the rest one by one.
TEST_P(PositionalConformance, LeftPaddedBatchDecodesThroughACache) {
  const Transformer model = random_model(config());
  constexpr std::int64_t kShort = 5;
  const std::vector<std::int32_t> tokens = random_tokens(2 * kShort);
  const Positions positions{2, kShort, {0, 1, 2, 3, 4, 0, 0, 0, 1, 2}};
  const std::vector<std::uint8_t> keep = {1, 1, 1, 1, 1, 0, 0, 1, 1, 1};
  const auto part = [&]<class T>(const std::vector<T>& all, std::int64_t begin, std::int64_t end) {
    std::vector<T> some(all.begin() + begin, all.begin() + end);
    some.insert(some.end(), all.begin() + kShort + begin, all.begin() + kShort + end);
    return some;
  };
  Mask padding = Mask::key_padding(2, keep);
  Pass pass;
  pass.positions = &positions;
  pass.mask = &padding;
  const Array whole = model.logits({tokens, 2, kShort}, pass).value();
  KvCache cache = model.make_cache(2, kShort);
  pass.cache = &cache;
  for (std::int64_t begin = 0; begin < kShort;) {
    const std::int64_t end = begin == 0 ? 3 : begin + 1;
    const std::vector<std::int32_t> some = part(tokens, begin, end);
    const Positions where{2, end - begin, part(positions.values, begin, end)};
    padding = Mask::key_padding(2, part(keep, 0, end));
    pass.positions = &where;
    expect_near(model.logits({some, 2, end - begin}, pass).value(), columns_of(whole, begin, end),
                1e-12);
    begin = end;
  }
}

TEST_P(PositionalConformance, GradientsMatchDifferences) {
  for (const char* mask : {"causal", "none"}) {
    if (is_causal_only() && std::string(mask) != "causal") continue;
    Transformer model = random_model(config(mask));
    const std::vector<std::int32_t> tokens = random_tokens(2 * 5),
                                    targets = random_tokens(2 * 5, 2);
    const Positions positions{2, 5, {0, 1, 2, 3, 4, 9, 3, 4, 7, 8}};
    expect_parameter_gradients_match(model.parameters(), [&](Tape* tape) {
      Pass pass;
      pass.tape = tape;
      pass.positions = &positions;
      return model.loss({tokens, 2, 5}, targets, pass).loss_sum;
    });
  }
}

TEST_P(PositionalConformance, SchemesForCausalModelsAloneRefuseOthers) {
  if (!is_causal_only()) {
    EXPECT_NO_THROW(Transformer(config("none"), 1));
    return;
  }
  expect_throws<ConfigError>(
      [&] { static_cast<void>(Transformer(config("none"), 1)); },
      "--pos " + GetParam() + ": counts distances back from the query, so needs --mask causal");
}

// What tables were made for is not what positions may be: a scheme serves longer contexts, as if it
// had been built for them unless it declares otherwise, or refuses and names both numbers.
TEST_P(PositionalConformance, PositionsPastTheTrainedLengthWorkOrAreRefused) {
  TransformerConfig shorter = config(), longer = config();
  shorter.block_size = 4;
  longer.block_size = 32;
  const Transformer trained = random_model(shorter);
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  const std::int64_t limit = trained.encoding().position_limit();
  if (limit > 0 && limit < kTime) {
    EXPECT_EQ(limit, 4);
    try {
      static_cast<void>(logits_of(trained, tokens));
      FAIL() << "did not throw";
    } catch (const ValueError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("position 4 "), std::string::npos) << message;
      EXPECT_NE(message.find("--block-size 4"), std::string::npos) << message;
    }
    return;
  }
  const Array logits = logits_of(trained, tokens);
  const Array of_longer = logits_of(random_model(longer), tokens);
  if (trained.encoding().depends_on_trained_length()) {
    EXPECT_GT(distance(logits, of_longer), 1e-4);
    for (const double logit : logits.to_vector()) EXPECT_TRUE(std::isfinite(logit));
  } else {
    expect_near(logits, of_longer, 1e-12);
  }
}

// Past the longest text that a cache holds right, a pass that would build on the cache says so; the
// whole text read at once is right, and reading it again gives the same.
TEST_P(PositionalConformance, BeyondItsLimitACacheIsRefused) {
  TransformerConfig shorter = config();
  shorter.block_size = 8;
  const Transformer model = random_model(shorter);
  const std::int64_t limit = model.encoding().cache_limit();
  if (limit == 0) return;
  ASSERT_EQ(limit, 8);
  const std::vector<std::int32_t> tokens = random_tokens(9);
  KvCache cache = model.make_cache(1, 20);
  Pass pass;
  pass.cache = &cache;
  static_cast<void>(logits_of(model, {tokens.begin(), tokens.end() - 1}, pass));
  try {
    static_cast<void>(logits_of(model, {tokens.back()}, pass));
    FAIL() << "did not throw";
  } catch (const ValueError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("--block-size 8"), std::string::npos) << message;
    EXPECT_NE(message.find("9 tokens"), std::string::npos) << message;
  }
  cache.clear();
  expect_near(logits_of(model, tokens, pass), logits_of(model, tokens), 1e-12);
}

// Ruoss et al. 2023 under every scheme. The positions of a text are a function of seed, step and
// length; through a cache, of its capacity.
TEST_P(PositionalConformance, RandomPositionsThroughACacheEqualOnePass) {
  TransformerConfig random = config();
  random.random_positions = 50;
  const Transformer model = random_model(random);
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Array whole = logits_of(model, tokens);
  expect_near(cached_logits(model, tokens, 1), whole, 1e-12);
  expect_near(cached_logits(model, tokens, 5), whole, 1e-12);
  const Positions drawn = Positions::sample(kTime, 50, Randomness{}.stream("positions"));
  Pass pass;
  pass.positions = &drawn;
  EXPECT_EQ(distance(logits_of(model, tokens, pass), whole), 0);
}

TEST_P(PositionalConformance, RandomPositionsChangeFromStepToStep) {
  TransformerConfig random = config();
  random.random_positions = 50;
  const Transformer model = random_model(random);
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  Pass first, second;
  first.random = {.seed = 3, .step = 1};
  second.random = {.seed = 3, .step = 2};
  const double change = distance(logits_of(model, tokens, first), logits_of(model, tokens, second));
  if (model.encoding().reads_positions()) {
    EXPECT_GT(change, 1e-4);
  } else {
    EXPECT_EQ(change, 0);
  }
}

TEST_P(PositionalConformance, TextsLongerThanTheRandomPositionsAreRefused) {
  TransformerConfig random = config();
  random.random_positions = 16;
  const Transformer model = random_model(random);
  EXPECT_EQ(model.length_limit(), 16);
  EXPECT_NO_THROW(static_cast<void>(logits_of(model, random_tokens(16))));
  expect_throws<ValueError>([&] { static_cast<void>(logits_of(model, random_tokens(17))); },
                            "positions: 17 tokens do not fit into --random-positions 16");
}

// B16: the error comes before anything is written, so the cache still serves what fits.
TEST_P(PositionalConformance, ARefusedPassLeavesTheCacheUsable) {
  const Transformer model = random_model(config());
  const std::vector<std::int32_t> tokens = random_tokens(18);
  const std::int64_t limit = model.encoding().position_limit();
  KvCache cache = model.make_cache(1, limit > 0 && limit <= 16 ? 100 : 16);
  Pass pass;
  pass.cache = &cache;
  static_cast<void>(logits_of(model, {tokens.begin(), tokens.begin() + 15}, pass));
  EXPECT_THROW(static_cast<void>(logits_of(model, {tokens.begin() + 15, tokens.end()}, pass)),
               ValueError);
  EXPECT_EQ(cache.filled(), 15);
  const Array last = logits_of(model, {tokens[15]}, pass);
  const std::vector<std::int32_t> all(tokens.begin(), tokens.begin() + 16);
  expect_near(last, columns_of(logits_of(model, all), 15, 16), 1e-12);
}

TEST_P(PositionalConformance, OddWidthsWorkOrAreRefusedByName) {
  TransformerConfig odd = config();
  odd.n_embd = 9;
  odd.n_head = 3;
  try {
    expect_near(cached_logits(random_model(odd), random_tokens(5), 2),
                logits_of(random_model(odd), random_tokens(5)), 1e-12);
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--pos " + GetParam()), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("even"), std::string::npos) << error.what();
  }
}

TEST_P(PositionalConformance, Float32AgreesWithFloat64) {
  Transformer narrow = random_model(config(), DType::float32);
  Transformer wide = random_model(config());
  for (Parameter& parameter : wide.parameters()) {
    parameter.set_value(narrow.parameters().find(parameter.name())->value().cast(DType::float64));
  }
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Positions far = Positions::range(shift_of(wide), kTime);
  Pass pass;
  pass.positions = &far;
  expect_near(logits_of(narrow, tokens, pass), logits_of(wide, tokens, pass).to_vector(), 1e-4);
}

TEST_P(PositionalConformance, PositionsForOtherTokensAreRefused) {
  const Transformer model = random_model(config());
  const Positions positions = Positions::range(0, 3);
  Pass pass;
  pass.positions = &positions;
  expect_throws<ShapeError>([&] { static_cast<void>(logits_of(model, random_tokens(4), pass)); },
                            "transformer: positions for [1, 3] tokens, not [1, 4]");
}

std::vector<std::string> registered() {
  std::vector<std::string> names;
  for (const EncodingInfo& info : list_encodings()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registered, PositionalConformance, testing::ValuesIn(registered()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace attune::positional_conformance_test
