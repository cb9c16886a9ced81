#include "attune/nn/attention/token_pruning.h"

#include <algorithm>

#include "attune/core/random.h"
#include "attune/nn/embedding.h"
#include "attune/nn/multi_head_attention.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_token_pruning_test {

constexpr DType kDouble = DType::float64;

TEST(TokenPruning, KeepsTheMostAttendedInTheirOrderWithTheirPositions) {
  const Array x = random_array({2, 5, 3}, 1);
  const Array received = Array::from({2, 5}, {.1, .9, .3, .2, .9, .5, .4, .3, .2, .1}, kDouble);
  const Positions positions{2, 5, {10, 11, 12, 13, 14, 0, 2, 4, 6, 8}};
  const PrunedTokens pruned = prune_tokens(x, received, 0.6, positions);
  EXPECT_EQ(pruned.index, (std::vector<std::int32_t>{1, 2, 4, 0, 1, 2}));
  EXPECT_EQ(pruned.positions, (Positions{2, 3, {11, 12, 14, 0, 2, 4}}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::int64_t at = pruned.index[static_cast<std::size_t>(3 * b + i)];
      EXPECT_EQ(row_of(pruned.x.value(), b, i), row_of(x, b, at));
    }
  }
}

TEST(TokenPruning, CountsRoundUpAndARatioOfOneKeepsAll) {
  const Array x = random_array({1, 5, 3}, 1), received = random_array({1, 5}, 2);
  const Positions positions = Positions::range(0, 5);
  EXPECT_EQ(prune_tokens(x, received, 0.5, positions).x.shape()[1], 3);
  EXPECT_EQ(prune_tokens(x, received, 0.01, positions).x.shape()[1], 1);
  const PrunedTokens all = prune_tokens(x, received, 1, positions);
  expect_near(all.x.value(), x, 0);
  EXPECT_EQ(all.positions.values, positions.values);
}

TEST(TokenPruning, TheMaskFollowsAndPaddingGoesFirst) {
  const Array x = random_array({2, 4, 3}, 1);
  const Array received = Array::from({2, 4}, {.9, .1, .2, .3, .1, .2, .8, .9}, kDouble);
  const Mask mask = Mask::key_padding(2, {0, 1, 1, 1, 1, 1, 0, 0}) & Mask::causal();
  const PrunedTokens pruned = prune_tokens(x, received, 0.75, Positions::range(0, 4), &mask);
  EXPECT_EQ(pruned.index, (std::vector<std::int32_t>{1, 2, 3, 0, 1, 2}));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        const auto at = [&](std::int64_t t) {
          return pruned.index[static_cast<std::size_t>(3 * b + t)];
        };
        EXPECT_EQ(pruned.mask.keeps(b, 0, i, j, 3, 3), mask.keeps(b, 0, at(i), at(j), 4, 4));
      }
    }
  }
}

TEST(TokenPruning, GradientsReachTheTokensThatStayed) {
  const Array received = Array::from({2, 3}, {.1, .9, .3, .9, .2, .5}, kDouble);
  expect_gradients_match(
      [&](std::span<const Var> in) {
        return prune_tokens(in[0], received, 0.6, Positions::range(0, 3)).x;
      },
      {random_array({2, 3, 2}, 1)});
}

TEST(TokenPruning, RefusesRatiosAndExtents) {
  const Array x = random_array({1, 4, 3}, 1), received = random_array({1, 4}, 2);
  expect_throws<ValueError>([&] { (void)prune_tokens(x, received, 0, Positions::range(0, 4)); },
                            "token pruning: keep ratio 0, expected one in (0, 1]");
  expect_throws<ShapeError>(
      [&] { (void)prune_tokens(x, received, 0.5, Positions::range(0, 3)); },
      "token pruning: x [1, 4, 3], received attention [1, 4] and positions [1, 3], expected "
      "[batch, time, model] and twice [batch, time]");
}

// Two layers of attention over a first token and 16 others: filler, four times the answer and twice
// another symbol. The answer is read off the mean of the tokens.
struct Majority {
  static constexpr std::int64_t kBatch = 32, kTime = 17, kSymbols = 5, kModel = 16;

  Majority()
      : no_positions(make_positional_encoding("none", bench.root, {}, init)),
        embedding(bench.root / "embedding", kSymbols + 1, kModel, init),
        first(bench.root / "first", attention(), *no_positions, init, 0),
        second(bench.root / "second", attention(), *no_positions, init, 1),
        readout(bench.root / "readout", kModel, kSymbols, true, init) {}
  static AttentionConfig attention() {
    AttentionConfig config{.model = kModel, .heads = 2, .head_dim = 8};
    config.mask = Mask::none();
    return config;
  }
  struct Examples {
    std::vector<std::int32_t> tokens, answers;
  };
  static Examples draw(std::uint32_t seed) {
    Examples examples;
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      RandomCursor cursor(Randomness{.seed = seed}.stream("majority"), b);
      const auto answer = static_cast<std::int32_t>(cursor.between(1, kSymbols - 1));
      std::vector<std::int32_t> text(kTime, 0);
      text[0] = kSymbols;
      const auto put = [&](std::int32_t symbol) {
        std::size_t at = 0;
        while (text[at] != 0) at = 1 + cursor.below(kTime - 1);
        text[at] = symbol;
      };
      for (int i = 0; i < 4; ++i) put(answer);
      for (int i = 0; i < 2; ++i)
        put(1 + (answer + static_cast<std::int32_t>(cursor.below(3))) % 4);
      examples.tokens.insert(examples.tokens.end(), text.begin(), text.end());
      examples.answers.push_back(answer);
    }
    return examples;
  }
  CrossEntropy run(const Examples& examples, const Pass& given, double keep_ratio,
                   double sign = 1) const {
    Pass pass = given;
    ReceivedAttention received(0);
    if (keep_ratio < 1) pass.hooks = &received;
    Var x = embedding(examples.tokens, {kBatch, kTime}, pass);
    x = x + first(x, {}, pass);
    if (keep_ratio < 1) {
      const Array scores = (Var(received.received()) * sign).value();
      x = prune_tokens(x, scores, keep_ratio, Positions::range(0, kTime)).x;
      pass.hooks = nullptr;
    }
    x = x + second(x, {}, pass);
    return cross_entropy(readout(mean(x, 1), pass), examples.answers);
  }
  [[nodiscard]] double accuracy(double keep_ratio, double sign = 1) const {
    double correct = 0;
    for (std::uint32_t seed = 0; seed < 40; ++seed)
      correct += static_cast<double>(run(draw(1'000'000 + seed), {}, keep_ratio, sign).correct);
    return correct / (40 * kBatch);
  }

  Bench bench{DType::float32};
  InitScheme init{"xavier", 0.5, 1};
  std::unique_ptr<PositionalEncoding> no_positions;
  Embedding embedding;
  MultiHeadAttention first, second;
  Linear readout;
};

TEST(TokenPruning, HalfTheTokensCostAtMostAPointOfAccuracy) {
  Majority model;
  descend(model.bench.store, 300, 0.005, [&](const Pass& pass) {
    return multiply(model.run(Majority::draw(pass.random.step), pass, 1).loss_sum,
                    1.0 / Majority::kBatch);
  });
  const double all = model.accuracy(1);
  EXPECT_GE(all, 0.95);
  EXPECT_GE(model.accuracy(0.5), all - 0.01);
  // Without the tokens that receive most attention it does worse.
  EXPECT_LE(model.accuracy(0.5, -1), all - 0.03);
}

}  // namespace attune::attention_token_pruning_test
