#include <cstdint>
#include <vector>

#include "attune/nn/kv_cache.h"
#include "attune/nn/multi_head_attention.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "nn/layer_test.h"

// Raw keys in a cache and terms that depend on content, by schemes of the test's own.
namespace attune::encoding_extension_test {

const AttentionConfig kConfig{.model = 6, .heads = 2, .head_dim = 3};
constexpr double kScale = 0.577350269189625764509;  // 1/sqrt(3)

// Keys that depend on how many there are, as under a rotation whose base grows with the length.
class GrowingKeys final : public PositionalEncoding {
 public:
  [[nodiscard]] std::string_view name() const override { return "growing"; }
  [[nodiscard]] CachePolicy cache_policy() const override { return CachePolicy::raw_keys; }
  [[nodiscard]] Var transform_key(const Var& x, std::int64_t,
                                  const PositionContext& context) const override {
    EXPECT_EQ(x.shape()[1], context.key().time);
    return x * static_cast<double>(context.key().time);
  }
};

TEST(RawKeysInACache, AreTransformedAgainInEveryPass) {
  Bench bench;
  const GrowingKeys encoding;
  const MultiHeadAttention attention(bench.root / "attention", kConfig, encoding, bench.init, 0);
  const Array x = random_array({1, 4, 6}, 1);
  KvCache cache(1, 1, 4, 6, 6, DType::float64);
  Pass pass;
  pass.cache = &cache;
  for (std::int64_t t = 0; t < 4; ++t) {
    const Var token = slice(Var(x), 1, t, t + 1);
    PositionContext context = PositionContext::of(Positions::range(t, 1));
    context.cache = &cache;
    const Array y = attention(token, context, pass).value();
    cache.advance(Positions::range(t, 1));
    const Var all = slice(Var(x), 1, 0, t + 1);
    const Var whole = attention(all, PositionContext::of(Positions::range(0, t + 1)), {});
    expect_near(y, slice(whole, 1, t, t + 1).value(), 1e-12);
  }
}

// Adds the scores to themselves, and a number to every head's output.
class ContentTerms final : public PositionalEncoding {
 public:
  [[nodiscard]] std::string_view name() const override { return "content"; }
  [[nodiscard]] bool depends_on_content() const override { return true; }
  [[nodiscard]] Var content_bias(const Var& query, const Var& key, const Var& scores, const Array&,
                                 int, const PositionContext&, const Pass&) const override {
    EXPECT_EQ(query.shape(), (Shape{2, 5, 6}));
    EXPECT_EQ(key.shape(), (Shape{2, 5, 6}));
    EXPECT_EQ(scores.shape(), (Shape{2, 2, 5, 5}));
    return scores;
  }
  [[nodiscard]] Var value_term(const Var& pattern, int, const PositionContext&,
                               const Pass&) const override {
    EXPECT_EQ(pattern.shape(), (Shape{2, 2, 5, 5}));
    return Var(Array::full({2, 5, 6}, 0.25, DType::float64));
  }
};

TEST(ContentDependentTerms, AreAddedToScoresAndOutputs) {
  Bench bench;
  const ContentTerms terms;
  const MultiHeadAttention with(bench.root / "attention", kConfig, terms, bench.init, 0);
  Bench same;
  const auto none = make_positional_encoding("none", same.root, {}, same.init);
  AttentionConfig doubled = kConfig;
  doubled.scale = 2 * kScale;
  const MultiHeadAttention without(same.root / "attention", doubled, *none, same.init, 0);
  const Array x = random_array({2, 5, 6}, 1);
  const Array y = with(x, {}, {}).value(), plain = without(x, {}, {}).value();
  const Array& output = bench.value("attention.output.weight");
  for (std::int64_t row = 0; row < 10; ++row) {
    for (std::int64_t c = 0; c < 6; ++c) {
      double constant = 0;
      for (std::int64_t h = 0; h < 6; ++h) constant += 0.25 * output.at({c, h});
      EXPECT_NEAR(y.at({row / 5, row % 5, c}), plain.at({row / 5, row % 5, c}) + constant, 1e-12);
    }
  }
}

}  // namespace attune::encoding_extension_test
