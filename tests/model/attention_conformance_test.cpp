#include <algorithm>
#include <cctype>
#include <functional>
#include <string>

#include "model/model_test.h"

// What every kind of attention and every variant of the dot-product layer must keep. Kinds come
// from list_attention(), masks from list_masks(), so that a new one is tested from the day it is
// registered.
namespace attune::attention_conformance_test {

constexpr std::int64_t kTime = 13;

struct Variant {
  std::string name;
  std::function<void(TransformerConfig&)> change;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const AttentionInfo& kind : list_attention())
    all.push_back({kind.name, [name = kind.name](auto& config) { config.attention = name; }});
  for (const MaskInfo& mask : list_masks()) {
    all.push_back(
        {"causal+" + mask.name, [name = mask.name](auto& config) {
           config.mask = "causal+" + name;
           if (name == "documents") config.document_separator = 3;
           config.mask_sizes = {
               .window = 4, .global_tokens = 1, .random_blocks = 1, .block = 3, .prefix = 5};
         }});
  }
  const auto add = [&](const char* name, std::function<void(TransformerConfig&)> change) {
    all.push_back({name, std::move(change)});
  };
  add("sigmoid", [](auto& config) { config.normaliser = Normaliser::sigmoid; });
  add("relu", [](auto& config) { config.normaliser = Normaliser::relu; });
  add("zero sink", [](auto& config) { config.sink = Sink::zero; });
  add("learned sink", [](auto& config) { config.sink = Sink::learned; });
  add("temperature", [](auto& config) { config.temperature = 3; });
  add("learned temperature", [](auto& config) { config.temperature = kLearned; });
  add("softcap", [](auto& config) { config.softcap = 2; });
  add("qk-norm", [](auto& config) { config.qk_norm = true; });
  add("talking before", [](auto& config) { config.talking_heads = TalkingHeads::before; });
  add("talking after", [](auto& config) { config.talking_heads = TalkingHeads::after; });
  add("talking both", [](auto& config) { config.talking_heads = TalkingHeads::both; });
  add("multi-query", [](auto& config) { config.n_kv_head = 1; });
  add("multi-query rope t5", [](auto& config) {
    config.n_kv_head = 1;
    config.positions = "rope";
    config.qk_norm = true;
  });
  add("sigmoid window alibi", [](auto& config) {
    config.normaliser = Normaliser::sigmoid;
    config.positions = "alibi";
    config.mask = "causal+window";
    config.mask_sizes.window = 5;
  });
  return all;
}

class AttentionConformance : public testing::TestWithParam<Variant> {
 protected:
  [[nodiscard]] static TransformerConfig config() {
    TransformerConfig config = small_config();
    config.n_embd = 12;
    config.positions = "none";
    config.top_k = 4;
    config.experts = 2;
    config.features = 6;
    GetParam().change(config);
    return config;
  }
};

TEST_P(AttentionConformance, TokenByTokenAndInChunksEqualOnePass) {
  const Transformer model = random_model(config());
  if (!model.can_use_cache()) GTEST_SKIP() << "what is seen follows from all tokens";
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Array whole = logits_of(model, tokens);
  for (const std::int64_t chunk : {1, 5})
    expect_near(cached_logits(model, tokens, chunk), whole, 1e-11);
}

TEST_P(AttentionConformance, FutureTokensChangeNoEarlierLogits) {
  const Transformer model = random_model(config());
  std::vector<std::int32_t> tokens = random_tokens(kTime);
  const Array before = logits_of(model, tokens);
  tokens.back() = (tokens.back() + 1) % 11;
  const Array after = logits_of(model, tokens);
  EXPECT_EQ(distance(columns_of(before, 0, kTime - 1), columns_of(after, 0, kTime - 1)), 0);
  EXPECT_GT(distance(columns_of(before, kTime - 1, kTime), columns_of(after, kTime - 1, kTime)),
            1e-6);
}

TEST_P(AttentionConformance, GradientsMatchDifferences) {
  Transformer model = random_model(config());
  const std::vector<std::int32_t> tokens = random_tokens(2 * 6), targets = random_tokens(2 * 6, 2);
  expect_parameter_gradients_match(model.parameters(), [&](Tape* tape) {
    Pass pass;
    pass.tape = tape;
    return model.loss({tokens, 2, 6}, targets, pass).loss_sum;
  });
}

// Padding on the left, of the second example: a pattern that counts keys from the first one moves
// with it, so masks by place are left out.
TEST_P(AttentionConformance, LeftPaddingChangesNothing) {
  const TransformerConfig config = AttentionConformance::config();
  const bool by_place = !make_mask(config.mask, config.mask_sizes).is_band();
  if (by_place) GTEST_SKIP() << "what is seen follows from places";
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(2 * kTime);
  constexpr std::int64_t kShort = 9;
  std::vector<std::uint8_t> keep(2 * kTime, 1);
  std::fill_n(keep.begin() + kTime, kTime - kShort, std::uint8_t{0});
  const Mask padding = Mask::key_padding(2, keep);
  Pass pass;
  pass.mask = &padding;
  const Array padded = model.logits({tokens, 2, kTime}, pass).value();
  const std::vector<std::int32_t> real(tokens.end() - kShort, tokens.end());
  std::vector<double> second;
  for (std::int64_t t = kTime - kShort; t < kTime; ++t)
    for (std::int64_t c = 0; c < 11; ++c) second.push_back(padded.at({1, t, c}));
  expect_near(logits_of(model, real), second, 1e-11);
}

// The contract of the entropy log: what is counted is a row of a head that keeps two keys or more.
TEST_P(AttentionConformance, StatisticsAreOfEveryLoggedHead) {
  const Transformer model = random_model(config());
  AttentionStatistics statistics = model.make_statistics();
  Pass pass;
  pass.statistics = &statistics;
  const Array with = logits_of(model, random_tokens(kTime), pass);
  EXPECT_EQ(distance(with, logits_of(model, random_tokens(kTime))), 0);
  for (int layer = 0; layer < statistics.layers(); ++layer)
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      EXPECT_EQ(one.violations, 0);
      EXPECT_GT(one.rows_valid + one.rows_empty, 0) << "a relu may leave a row of zeros";
      EXPECT_GE(one.entropy_norm(), 0);
      EXPECT_LE(one.entropy_norm(), 1);
    }
}

TEST_P(AttentionConformance, Float32AgreesWithFloat64) {
  Transformer narrow = random_model(config(), DType::float32);
  Transformer wide = random_model(config());
  for (Parameter& parameter : wide.parameters()) {
    parameter.set_value(narrow.parameters().find(parameter.name())->value().cast(DType::float64));
  }
  const std::vector<std::int32_t> tokens = random_tokens(kTime);
  expect_near(logits_of(narrow, tokens), logits_of(wide, tokens).to_vector(), 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Registered, AttentionConformance, testing::ValuesIn(variants()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// Longformer's law: L layers of windows of w tokens look back L (w - 1) tokens, no further, no
// less.
TEST(WindowedModel, GradientReachesExactlyLayersTimesWindow) {
  for (const std::int64_t layers : {1, 2, 3}) {
    for (const std::int64_t window : {2, 4}) {
      TransformerConfig config = small_config();
      config.positions = "none";
      config.n_layer = layers;
      config.mask = "causal+window";
      config.mask_sizes.window = window;
      const Transformer model = random_model(config);
      std::vector<std::int32_t> tokens = random_tokens(16);
      const Array before = logits_of(model, tokens);
      const std::int64_t last = 15, reach = layers * (window - 1);
      for (std::int64_t t = 0; t < last; ++t) {
        std::vector<std::int32_t> changed = tokens;
        changed[static_cast<std::size_t>(t)] = (changed[static_cast<std::size_t>(t)] + 1) % 11;
        const double change = distance(columns_of(logits_of(model, changed), last, last + 1),
                                       columns_of(before, last, last + 1));
        EXPECT_EQ(change > 0, last - t <= reach)
            << layers << " layers, window " << window << ", token " << t;
      }
    }
  }
}

// A cache that forgets what lies behind the window is the full pass.
TEST(WindowedModel, ARollingCacheEqualsOnePass) {
  for (const char* positions : {"none", "rope", "alibi", "t5"}) {
    TransformerConfig config = small_config();
    config.positions = positions;
    config.mask = "causal+window";
    config.mask_sizes.window = 4;
    const Transformer model = random_model(config);
    EXPECT_EQ(model.sight(), 4);
    const std::vector<std::int32_t> tokens = random_tokens(60);
    const Array whole = logits_of(model, tokens);
    KvCache cache = model.make_cache(1, 9);
    Pass pass;
    pass.cache = &cache;
    for (std::int64_t t = 0; t < 60; ++t) {
      if (cache.filled() == cache.capacity()) cache.forget(cache.filled() - 3);
      expect_near(logits_of(model, {tokens[static_cast<std::size_t>(t)]}, pass),
                  columns_of(whole, t, t + 1), 1e-11);
      EXPECT_EQ(cache.read(), t + 1);
    }
  }
}

TEST(WindowedModel, OnlyACausalWindowHasASight) {
  const auto sight_of = [](const char* mask) {
    TransformerConfig config = small_config();
    config.mask = mask;
    return Transformer(config, 1).sight();
  };
  EXPECT_EQ(sight_of("causal"), 0);
  EXPECT_EQ(sight_of("window"), 0);
  EXPECT_EQ(sight_of("causal+global"), 0);
  EXPECT_EQ(sight_of("causal+window"), 16);
  EXPECT_EQ(sight_of("window+prefix"), 0);
}

TEST(DocumentMask, TokensReadTheirOwnDocumentAlone) {
  TransformerConfig config = small_config();
  config.positions = "none";
  config.mask = "causal+documents";
  config.document_separator = 0;
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = {3, 4, 0, 5, 6, 7};
  const Array whole = logits_of(model, tokens);
  expect_near(columns_of(whole, 3, 6), logits_of(model, {5, 6, 7}), 1e-12);
  expect_near(columns_of(whole, 0, 3), logits_of(model, {3, 4, 0}), 1e-12);
  EXPECT_FALSE(model.can_use_cache());
}

}  // namespace attune::attention_conformance_test
