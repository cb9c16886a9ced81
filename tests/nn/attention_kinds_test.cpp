// What every registered kind of self-attention keeps to: the list is that of list_attention(), so
// that a new kind is tested from the day it is registered.
#include "attune/nn/self_attention.h"

#include <memory>
#include <tuple>

#include "attune/nn/kv_cache.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_kinds_test {

AttentionConfig small() {
  return {.model = 6, .heads = 2, .head_dim = 4, .top_k = 3, .experts = 3, .features = 8};
}

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const AttentionInfo& info : list_attention()) names.push_back(info.name);
  return names;
}

struct Layer {
  explicit Layer(const std::string& kind, const AttentionConfig& config = small(),
                 const std::string& encoding = "rope", DType dtype = DType::float64)
      : bench(dtype, 0.5),
        position(make_positional_encoding(encoding, bench.root / "position",
                                          {.model = 6, .heads = 2, .head_dim = 4, .block_size = 16},
                                          bench.init)),
        attention(make_self_attention(kind, bench.root / "a", config, *position, bench.init, 0)) {
    randomize(bench.store, 0.8);
  }
  // Tokens at first, first + 1, ...
  [[nodiscard]] Var operator()(const Var& x, const Pass& pass = {}, std::int32_t first = 0) const {
    PositionContext context = PositionContext::of(Positions::range(first, x.shape()[1]));
    context.cache = pass.cache;
    position->prepare(context, pass);
    return (*attention)(x, context, pass);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> position;
  std::unique_ptr<SelfAttention> attention;
};

class AttentionKind : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionKind, testing::ValuesIn(kinds()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

TEST_P(AttentionKind, TokenByTokenAndInChunksWithACacheIsTheSame) {
  const Layer layer(GetParam());
  const Array x = random_array({2, 7, 6}, 1);
  const Array all = layer(x).value();
  for (const std::vector<std::int64_t>& chunks :
       {std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1}, {3, 1, 3}, {5, 2}}) {
    const auto [key, value] = layer.attention->cache_widths();
    KvCache cache(1, 2, 7, key, value, DType::float64);
    Pass pass;
    pass.cache = &cache;
    std::int64_t at = 0;
    for (const std::int64_t count : chunks) {
      const Var y = layer(slice(Var(x), 1, at, at + count), pass, static_cast<std::int32_t>(at));
      cache.advance(Positions::range(static_cast<std::int32_t>(at), count));
      expect_near(y.value(), slice(Var(all), 1, at, at + count).value(), 1e-12);
      at += count;
    }
  }
}

TEST_P(AttentionKind, SeesNoLaterToken) {
  const Layer layer(GetParam());
  for (std::int64_t i = 0; i < 5; ++i) {
    Tape tape;
    Pass pass;
    pass.tape = &tape;
    const Var x = tape.leaf(random_array({1, 5, 6}, 1));
    const Array slopes = tape.backward(sum(slice(layer(x, pass), 1, i, i + 1)))[x];
    for (std::int64_t j = i + 1; j < 5; ++j)
      for (std::int64_t c = 0; c < 6; ++c) EXPECT_EQ(slopes.at({0, j, c}), 0) << i << " " << j;
    double own = 0;
    for (std::int64_t c = 0; c < 6; ++c) own += std::abs(slopes.at({0, i, c}));
    EXPECT_GT(own, 0) << i;
  }
}

// Three tokens of padding on the left, of which nothing, not even NaN, may be seen.
TEST_P(AttentionKind, PaddingIsNotSeen) {
  const Layer layer(GetParam());
  const Array real = random_array({1, 4, 6}, 1);
  const Array nan = Array::full({1, 3, 6}, NAN, DType::float64);
  const Mask padding = Mask::key_padding(1, {0, 0, 0, 1, 1, 1, 1});
  Pass pass;
  pass.mask = &padding;
  const Var y = layer(concat({Var(nan), Var(real)}, 1), pass, -3);
  expect_near(slice(y, 1, 3, 7).value(), layer(real).value(), 1e-12);
}

TEST_P(AttentionKind, WithoutAMaskTheOrderOfKeysDoesNotMatter) {
  AttentionConfig config = small();
  config.mask = Mask::none();
  const Layer layer(GetParam(), config, "none");
  const Var x = random_array({1, 5, 6}, 1);
  const auto turned = [](const Var& of) {
    return concat({slice(of, 1, 3, 5), slice(of, 1, 0, 3)}, 1);
  };
  expect_near(layer(turned(x)).value(), turned(layer(x)).value(), 1e-12);
}

TEST_P(AttentionKind, LogsAsManyDistributionsAsItSays) {
  const Layer layer(GetParam());
  const auto logged = static_cast<int>(layer.attention->logged_heads());
  AttentionStatistics statistics(1, logged);
  Pass pass;
  pass.statistics = &statistics;
  (void)layer(random_array({2, 5, 6}, 1), pass);
  for (int h = 0; h < logged; ++h) {
    EXPECT_EQ(statistics.at(0, h).rows_valid, 8);
    EXPECT_EQ(statistics.at(0, h).rows_single, 2);
    EXPECT_EQ(statistics.at(0, h).violations, 0);
    EXPECT_GT(statistics.at(0, h).entropy_nats(), 0);
  }
}

TEST_P(AttentionKind, RunsInFloat32) {
  const Layer wide(GetParam());
  const Layer narrow(GetParam(), small(), "rope", DType::float32);
  const Array x = random_array({2, 70, 6}, 1);
  expect_near(narrow(x.cast(DType::float32)).value(), wide(x).value().to_vector(), 1e-4);
}

TEST(AttentionKinds, NamesThatAreUnknownAreRefused) {
  Bench bench;
  const auto none = make_positional_encoding("none", bench.root, {}, bench.init);
  try {
    (void)make_self_attention("linaer", bench.root, small(), *none, bench.init, 0);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("--attention: 'linaer' is unknown; did you mean linear"))
        << error.what();
  }
}

// Options that a kind other than dot products has no use for.
TEST(AttentionKinds, RefuseWhatIsNoPartOfThem) {
  Bench bench;
  const auto none = make_positional_encoding("none", bench.root, {}, bench.init);
  for (const std::string& kind : kinds()) {
    if (kind == "dot-product") continue;
    AttentionConfig config = small();
    config.qk_norm = true;
    expect_throws<ConfigError>(
        [&] { (void)make_self_attention(kind, bench.root / kind, config, *none, bench.init, 0); },
        "--attention " + kind + ": --qk-norm is not a part of it");
    config = small();
    config.sink = Sink::zero;
    expect_throws<ConfigError>(
        [&] { (void)make_self_attention(kind, bench.root / kind, config, *none, bench.init, 0); },
        "--attention " + kind + ": --attn-sink is not a part of it");
  }
}

}  // namespace attune::attention_kinds_test
