#include "attune/train/generation.h"

#include <cmath>
#include <limits>
#include <map>

#include "attune/core/error.h"
#include "train/train_test.h"

namespace attune::generation_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Tokens = std::vector<std::int32_t>;

std::int32_t sampled(const std::vector<double>& logits, const SamplingOptions& options,
                     double uniform = 0.5) {
  return sample_token(logits, options, uniform);
}

// The share of [0, 1) that goes to each token: uniform numbers on a fine grid.
std::map<std::int32_t, double> shares(const std::vector<double>& probabilities,
                                      const SamplingOptions& options) {
  std::vector<double> logits;
  for (const double p : probabilities) logits.push_back(std::log(p));
  constexpr int kGrid = 7200;
  std::map<std::int32_t, double> result;
  for (int i = 0; i < kGrid; ++i) {
    result[sampled(logits, options, (i + 0.5) / kGrid)] += 1.0 / kGrid;
  }
  return result;
}

void expect_shares(const std::map<std::int32_t, double>& actual,
                   const std::map<std::int32_t, double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [token, share] : expected) {
    ASSERT_TRUE(actual.contains(token)) << token;
    EXPECT_NEAR(actual.at(token), share, 3e-4) << "of token " << token;
  }
}

std::string error_of(const SamplingOptions& options) {
  try {
    options.check();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The inputs and values of B18.
TEST(SampleToken, TemperatureZeroTakesTheLargest) {
  for (const double uniform : {0.0, 0.5, 0.999999}) {
    EXPECT_EQ(sampled({2, 1, 0, -1}, {.temperature = 0}, uniform), 0);
    EXPECT_EQ(sampled({0, 1, 5, -1}, {.temperature = 0}, uniform), 2);
    EXPECT_EQ(sampled({1, 3, 3, 3}, {.temperature = 0}, uniform), 1);  // the first of equals
  }
}

TEST(SampleToken, ATinyTemperatureDoesNotOverflow) {
  for (const double temperature : {1e-10, 1e-300, 5e-324}) {
    EXPECT_EQ(sampled({2, 1, 0, -1}, {.temperature = temperature}, 0.999999), 0);
  }
}

TEST(SampleToken, DrawsBySoftmaxOfLogitsOverTemperature) {
  expect_shares(shares({.4, .3, .2, .1}, {}), {{0, .4}, {1, .3}, {2, .2}, {3, .1}});
  // p^(1/2), normalised.
  const double sum = std::sqrt(.4) + std::sqrt(.3) + std::sqrt(.2) + std::sqrt(.1);
  expect_shares(shares({.4, .3, .2, .1}, {.temperature = 2}), {{0, std::sqrt(.4) / sum},
                                                               {1, std::sqrt(.3) / sum},
                                                               {2, std::sqrt(.2) / sum},
                                                               {3, std::sqrt(.1) / sum}});
}

TEST(SampleToken, TopPKeepsTheSmallestSetThatReachesIt) {
  expect_shares(shares({.4, .3, .2, .1}, {.top_p = .8}), {{0, 4. / 9}, {1, 1. / 3}, {2, 2. / 9}});
  expect_shares(shares({.1, .2, .3, .4}, {.top_p = .8}), {{3, 4. / 9}, {2, 1. / 3}, {1, 2. / 9}});
  expect_shares(shares({.5, .25, .125, .125}, {.top_p = .75}), {{0, 2. / 3}, {1, 1. / 3}});
  expect_shares(shares({.4, .3, .2, .1}, {.top_p = 1e-9}), {{0, 1}});
  expect_shares(shares({.4, .3, .2, .1}, {.top_p = 0}), {{0, 1}});
  expect_shares(shares({.4, .3, .2, .1}, {.top_p = 1}), shares({.4, .3, .2, .1}, {}));
}

TEST(SampleToken, TopPOfOneLosesNoRareToken) {
  // The rare token has a share of 2e-13; the largest uniform number is 1 - 2^-53.
  const std::vector<double> logits{0, std::log(2e-13)};
  EXPECT_EQ(sampled(logits, {.top_p = 1}, 1 - 0x1p-53), 1);
}

TEST(SampleToken, TopKOfZeroOrMoreThanThereAreIsOff) {
  const auto all = shares({.4, .3, .2, .1}, {});
  expect_shares(shares({.4, .3, .2, .1}, {.top_k = 50}), all);
  expect_shares(shares({.4, .3, .2, .1}, {.top_k = 4}), all);
  expect_shares(shares({.4, .3, .2, .1}, {.top_k = 0}), all);
  expect_shares(shares({.4, .3, .2, .1}, {.top_k = 2}), {{0, 4. / 7}, {1, 3. / 7}});
  expect_shares(shares({.25, .25, .25, .25}, {.top_k = 1}), {{0, 1}});
}

TEST(SampleToken, TopPIsOfWhatTopKLeft) {
  // 4/7 and 3/7 are left of two; 0.5 is reached by the first alone.
  expect_shares(shares({.4, .3, .2, .1}, {.top_k = 2, .top_p = .5}), {{0, 1}});
}

TEST(SampleToken, ATokenOfMinusInfinityIsNeverDrawn) {
  EXPECT_EQ(sampled({-kInfinity, 1, -kInfinity}, {}, 0.9999999), 1);
}

TEST(SampleToken, RefusesWhatIsNoDistribution) {
  EXPECT_THROW((void)sampled({1, kNaN}, {}), ValueError);
  EXPECT_THROW((void)sampled({1, kInfinity}, {}), ValueError);
  EXPECT_THROW((void)sampled({-kInfinity, -kInfinity}, {}), ValueError);
  EXPECT_THROW((void)sampled({}, {}), ValueError);
}

TEST(SamplingOptions, BadValuesNameTheirOption) {  // B18
  EXPECT_EQ(error_of({}), "");
  EXPECT_EQ(error_of({.temperature = -1}), "--temperature: -1 is not a number from 0");
  EXPECT_EQ(error_of({.temperature = kNaN}), "--temperature: nan is not a number from 0");
  EXPECT_EQ(error_of({.top_k = -1}), "--top-k: -1 is below 0");
  EXPECT_EQ(error_of({.top_p = 1.5}), "--top-p: 1.5 is outside [0, 1]");
  EXPECT_EQ(error_of({.top_p = kNaN}), "--top-p: nan is outside [0, 1]");
}

Transformer model_with(const std::string& positions, std::int64_t block = 4,
                       const std::string& mask = "causal") {
  TransformerConfig config = small_config();
  config.positions = positions;
  config.block_size = block;
  config.mask = mask;
  return random_model(config);
}

struct Generated {
  Tokens tokens;
  int rewinds = 0;
};
Generated generated(const Transformer& model, const Tokens& prompt, std::int64_t count,
                    const SamplingOptions& sampling = {.temperature = 0}, Randomness random = {}) {
  Generated result;
  GenerationOptions options{.sampling = sampling, .max_new_tokens = count, .random = random};
  const std::int64_t made = generate(
      model, prompt, options, [&](std::int32_t token) { result.tokens.push_back(token); },
      [&] { ++result.rewinds; });
  EXPECT_EQ(made, static_cast<std::int64_t>(result.tokens.size()));
  return result;
}

// The likeliest token after `read`, by a whole pass without a cache.
std::int32_t likeliest_after(const Transformer& model, const Tokens& read) {
  const std::vector<double> logits = logits_of(model, read).to_vector();
  const auto last = std::span(logits).last(11);
  return static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin());
}

TEST(Generate, WithACacheEqualsWholePassesForEveryEncoding) {
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    const Transformer model = model_with(encoding.name, 16);
    Tokens all{3, 1, 4};
    const Generated result = generated(model, all, 12);
    for (const std::int32_t token : result.tokens) {
      EXPECT_EQ(token, likeliest_after(model, all));
      all.push_back(token);
    }
    EXPECT_EQ(result.tokens.size(), 12u);
    EXPECT_EQ(result.rewinds, 0);
  }
}

// By draws, which small differences of the logits change, and the numbers of the stream "sample".
TEST(Generate, WithoutTheCausalMaskReadsEverythingAgain) {
  const Transformer model = model_with("sinusoidal", 4, "none");
  const SamplingOptions hot{.temperature = 3};
  const Randomness random{.seed = 7, .step = 0};
  Tokens all{3, 1};
  std::uint64_t made = 0;
  for (const std::int32_t token : generated(model, all, 300, hot, random).tokens) {
    const std::vector<double> logits = logits_of(model, all).to_vector();
    const double uniform = random.stream("sample").uniform(made++);
    ASSERT_EQ(token, sample_token(std::span(logits).last(11), hot, uniform)) << "token " << made;
    all.push_back(token);
  }
}

// B16: block 4. The last position is used; what goes beyond keeps the last half of the block.
TEST(Generate, LearnedPositionsServeTheirWholeBlock) {
  const Transformer model = model_with("learned");
  const Generated four = generated(model, {5, 6, 7, 8}, 1);
  EXPECT_EQ(four.tokens, Tokens{likeliest_after(model, {5, 6, 7, 8})});
  EXPECT_EQ(four.rewinds, 0);
  EXPECT_EQ(generated(model, {5, 6, 7}, 2).rewinds, 0);
  EXPECT_EQ(generated(model, {5, 6, 7}, 3).rewinds, 1);
}

TEST(Generate, PastLearnedPositionsGoesOnFromTheLastHalf) {  // B16
  for (const auto& [mask, prompt] : {std::pair<const char*, Tokens>{"causal", {5}},
                                     {"causal", {5, 6, 7, 8, 9}},
                                     {"none", {5, 6, 7, 8, 9, 1}}}) {
    const Transformer model = model_with("learned", 4, mask);
    const Generated result = generated(model, prompt, 10);
    ASSERT_EQ(result.tokens.size(), 10u);
    EXPECT_EQ(result.rewinds, 1) << "said once, however often";
    Tokens read = prompt;
    for (const std::int32_t token : result.tokens) {
      if (read.size() > 4) read.erase(read.begin(), read.end() - 2);
      EXPECT_EQ(token, likeliest_after(model, read));
      read.push_back(token);
    }
  }
}

TEST(Generate, OtherEncodingsGoOnPastTheBlock) {  // B16
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    const Transformer model = model_with(encoding.name);
    if (model.encoding().position_limit() == 4) continue;  // learned: the test above
    Tokens all{5, 6, 7, 8, 9};
    const Generated result = generated(model, all, 6);
    EXPECT_EQ(result.rewinds, 0);
    for (const std::int32_t token : result.tokens) {
      EXPECT_EQ(token, likeliest_after(model, all));
      all.push_back(token);
    }
  }
}

// A text stands at positions that are drawn for its final length, a longer one than L at those of
// L, its last half read again.
TEST(Generate, RandomPositionsAreOfTheFinalLength) {
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    TransformerConfig config = small_config();
    config.positions = encoding.name;
    config.random_positions = 20;
    const Transformer model = random_model(config);
    const Positions drawn = Positions::sample(11, 20, Randomness{}.stream("positions"));
    Tokens all{5, 6, 7, 8, 9};
    for (const std::int32_t token : generated(model, all, 6).tokens) {
      const auto count = static_cast<std::int64_t>(all.size());
      const Positions first{1, count, {drawn.values.begin(), drawn.values.begin() + count}};
      Pass pass;
      pass.positions = &first;
      const std::vector<double> last =
          columns_of(logits_of(model, all, pass), count - 1, count).to_vector();
      EXPECT_EQ(token, std::ranges::max_element(last) - last.begin());
      all.push_back(token);
    }
    const Generated longer = generated(model, all, 20);
    EXPECT_EQ(longer.tokens.size(), 20u);
    EXPECT_EQ(longer.rewinds, 1);
  }
}

TEST(Generate, ABlockOfOneReadsTheLastTokenAlone) {
  const Transformer model = model_with("learned", 1);
  Tokens all{5};
  for (const std::int32_t token : generated(model, all, 4).tokens) {
    EXPECT_EQ(token, likeliest_after(model, {all.back()}));
    all.push_back(token);
  }
}

TEST(Generate, TheSameSeedAndSampleGiveTheSameTokens) {  // B18
  const Transformer model = model_with("rope");
  const SamplingOptions hot{.temperature = 2};
  const Tokens first = generated(model, {1}, 30, hot, {.seed = 7, .step = 0}).tokens;
  EXPECT_EQ(generated(model, {1}, 30, hot, {.seed = 7, .step = 0}).tokens, first);
  EXPECT_NE(generated(model, {1}, 30, hot, {.seed = 8, .step = 0}).tokens, first);
  EXPECT_NE(generated(model, {1}, 30, hot, {.seed = 7, .step = 1}).tokens, first);
  EXPECT_EQ(generated(model, {1}, 30, {.temperature = 2, .top_k = 50}, {.seed = 7}).tokens, first);
}

TEST(Generate, EndsWithTheStopToken) {
  const Transformer model = model_with("rope");
  const Tokens free = generated(model, {1}, 10).tokens;
  GenerationOptions options{.sampling = {.temperature = 0}, .max_new_tokens = 10};
  options.stop = free[0];
  Tokens given;
  const auto take = [&](std::int32_t token) { given.push_back(token); };
  EXPECT_EQ(generate(model, Tokens{1}, options, take), 1);
  EXPECT_EQ(given, Tokens{free[0]});
}

TEST(Generate, OfNothingGivesNothing) {
  const Transformer model = model_with("learned");
  EXPECT_TRUE(generated(model, {1, 2, 3, 4, 5}, 0).tokens.empty());
}

TEST(Generate, RefusesAnEmptyPromptAndBadOptions) {
  const Transformer model = model_with("learned");
  EXPECT_THROW((void)generated(model, {}, 1), ValueError);
  EXPECT_THROW((void)generated(model, {1}, 1, {.temperature = -1}), ConfigError);
}

}  // namespace attune::generation_test
