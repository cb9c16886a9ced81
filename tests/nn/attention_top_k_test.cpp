#include "attune/nn/attention/top_k.h"

#include <algorithm>
#include <memory>

#include "attune/core/attention_statistics.h"
#include "attune/nn/multi_head_attention.h"
#include "nn/attention_test.h"

namespace attune::attention_top_k_test {

AttentionConfig small(std::int64_t k) {
  return {.model = 5, .heads = 4, .kv_heads = 2, .head_dim = 3, .bias = true, .top_k = k};
}

template <class Attention = TopKAttention>
struct Layer {
  explicit Layer(const AttentionConfig& config)
      : none(make_positional_encoding("none", bench.root, {}, bench.init)),
        attention(bench.root / "a", config, *none, bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> none;
  Attention attention;
};

TEST(TopKAttention, EqualsTheFormulaOverTheLargestScores) {
  constexpr std::int64_t kTime = 7, kLargest = 3;
  Layer layer(small(kLargest));
  const Array x = random_array({2, kTime, 5}, 1);
  Row expected;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < kTime; ++i) {
      Row heads;
      for (std::int64_t h = 0; h < 4; ++h) {
        const Row query = part(mapped(layer.bench, "a.query", row_of(x, b, i)), 3 * h, 3);
        Row scores;
        for (std::int64_t j = 0; j <= i; ++j) {
          const Row key = part(mapped(layer.bench, "a.key", row_of(x, b, j)), 3 * (h / 2), 3);
          scores.push_back(dot(query, key) / std::sqrt(3.0));
        }
        Row sorted = scores;
        std::sort(sorted.rbegin(), sorted.rend());
        const double least = sorted[std::min(scores.size(), std::size_t{kLargest}) - 1];
        for (double& score : scores)
          if (score < least) score = NAN;
        const Row weights = softmax_of(scores);
        Row mixed(3, 0.0);
        for (std::int64_t j = 0; j <= i; ++j) {
          add_to(mixed, weights[static_cast<std::size_t>(j)],
                 part(mapped(layer.bench, "a.value", row_of(x, b, j)), 3 * (h / 2), 3));
        }
        append(heads, mixed);
      }
      append(expected, mapped(layer.bench, "a.output", heads));
    }
  }
  expect_near(layer.attention(x, {}, {}).value(), expected, 1e-12);
}

TEST(TopKAttention, WithKeysForAllIsDotProductAttention) {
  Layer all(small(100));
  Layer<MultiHeadAttention> plain(small(100));
  const Array x = random_array({2, 6, 5}, 1);
  expect_near(all.attention(x, {}, {}).value(), plain.attention(x, {}, {}).value(), 1e-13);
}

TEST(TopKAttention, EntropyIsOverTheChosenKeys) {
  Layer layer(small(2));
  AttentionStatistics statistics(1, 4);
  Pass pass;
  pass.statistics = &statistics;
  (void)layer.attention(random_array({1, 6, 5}, 1), {}, pass);
  EXPECT_EQ(statistics.at(0, 0).rows_valid, 5);
  EXPECT_EQ(statistics.at(0, 0).score_count, 10);
  EXPECT_NEAR(statistics.at(0, 0).log_keys_sum, 5 * std::log(2), 1e-12);
}

// A custom mask for each head, with a row that keeps nothing: the choice is among what it keeps.
TEST(TopKAttention, ChoosesAmongWhatTheMaskKeepsForEachHead) {
  AttentionConfig config = small(1);
  config.mask = Mask::none();
  Layer layer(config);
  const Array x = random_array({1, 3, 5}, 1);
  std::vector<std::uint8_t> keep;
  for (std::int64_t h = 0; h < 4; ++h)
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 3; ++j) keep.push_back(i != 2 && j == (h + i) % 3);
  const Mask mask = Mask::custom(1, 4, 3, 3, keep);
  Pass pass;
  pass.mask = &mask;
  Row expected;
  for (std::int64_t i = 0; i < 3; ++i) {
    Row heads;
    for (std::int64_t h = 0; h < 4; ++h) {
      const Row value = mapped(layer.bench, "a.value", row_of(x, 0, (h + i) % 3));
      append(heads, i == 2 ? Row(3, 0.0) : part(value, 3 * (h / 2), 3));
    }
    append(expected, mapped(layer.bench, "a.output", heads));
  }
  expect_near(layer.attention(x, {}, pass).value(), expected, 1e-13);
}

class LooksInside final : public Hooks {
 public:
  Var at(HookPoint, int, const Var& x) override { return x; }
  bool wants_inside_of_attention(int) const override { return true; }
};

// Pairs that were chosen first, and all scores with those that were not at -inf: values, statistics
// and gradients.
TEST(TopKAttention, ThePairsAloneAreTheSameAsAllScores) {
  Layer layer(small(3));
  LooksInside hooks;
  const Array x = random_array({2, 300, 5}, 1);
  const auto run = [&](Hooks* looking, AttentionStatistics& statistics) {
    Tape tape;
    Pass pass;
    pass.tape = &tape;
    pass.statistics = &statistics;
    pass.hooks = looking;
    const Var leaf = tape.leaf(x), y = layer.attention(leaf, {}, pass);
    const Gradients gradients = tape.backward(y, random_array(y.shape(), 2));
    std::vector<Array> found = {y.value(), gradients[leaf]};
    for (const Parameter& parameter : layer.bench.store) found.push_back(gradients[parameter]);
    return found;
  };
  AttentionStatistics of_pairs(1, 4), of_all(1, 4);
  const std::vector<Array> pairs = run(nullptr, of_pairs), all = run(&hooks, of_all);
  ASSERT_EQ(pairs.size(), 2 + 8);
  for (std::size_t i = 0; i < all.size(); ++i) expect_near(pairs[i], all[i], 1e-11);
  for (int h = 0; h < 4; ++h) {
    EXPECT_EQ(of_pairs.at(0, h).score_count, of_all.at(0, h).score_count);
    EXPECT_EQ(of_pairs.at(0, h).rows_single, of_all.at(0, h).rows_single);
    EXPECT_NEAR(of_pairs.at(0, h).entropy_nats(), of_all.at(0, h).entropy_nats(), 1e-12);
  }
}

TEST(TopKAttention, OfNothingIsNothing) {
  Layer layer(small(3));
  for (const Shape& shape : {Shape{0, 4, 5}, Shape{2, 0, 5}})
    EXPECT_EQ(layer.attention(Array::zeros(shape, DType::float64), {}, {}).shape(), shape);
}

TEST(TopKAttention, RefusesNoKeys) {
  expect_throws<ConfigError>([] { Layer layer(small(0)); }, "--attn-top-k: 0, expected 1 or more");
}

}  // namespace attune::attention_top_k_test
