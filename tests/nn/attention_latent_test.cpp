#include "attune/nn/attention/latent.h"

#include <algorithm>

#include "attune/core/random.h"
#include "attune/nn/embedding.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_latent_test {

constexpr LatentAttentionConfig kConfig{
    .latents = 3, .model = 5, .memory = 7, .heads = 2, .head_dim = 4, .bias = true};

struct Layer {
  explicit Layer(const LatentAttentionConfig& config = kConfig)
      : attention(bench.root / "a", config, bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  LatentCrossAttention attention;
};

TEST(LatentCrossAttention, EqualsTheFormula) {
  Layer layer;
  const Array memory = random_array({2, 6, 7}, 1);
  Row expected;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t m = 0; m < 3; ++m) {
      Row latent;
      for (std::int64_t c = 0; c < 5; ++c)
        latent.push_back(layer.bench.value("a.latent.weight").at({m, c}));
      const Row query = mapped(layer.bench, "a.attention.query", latent);
      Row heads;
      for (std::int64_t h = 0; h < 2; ++h) {
        Row scores, mixed(4, 0.0);
        for (std::int64_t t = 0; t < 6; ++t) {
          const Row key = mapped(layer.bench, "a.attention.key", row_of(memory, b, t));
          scores.push_back(dot(part(query, 4 * h, 4), part(key, 4 * h, 4)) / 2);
        }
        const Row weights = softmax_of(scores);
        for (std::int64_t t = 0; t < 6; ++t) {
          const Row value = mapped(layer.bench, "a.attention.value", row_of(memory, b, t));
          add_to(mixed, weights[static_cast<std::size_t>(t)], part(value, 4 * h, 4));
        }
        append(heads, mixed);
      }
      add_to(latent, 1, mapped(layer.bench, "a.attention.output", heads));
      append(expected, latent);
    }
  }
  const Array y = layer.attention(memory, {}).value();
  EXPECT_EQ(to_string(y.shape()), "[2, 3, 5]");
  expect_near(y, expected, 1e-13);
}

// What the kernel scored, which it counts for the entropy log.
double scores_of(std::int64_t latents, std::int64_t time) {
  LatentAttentionConfig config = kConfig;
  config.latents = latents;
  Layer layer(config);
  AttentionStatistics statistics(1, 2);
  Pass pass;
  pass.statistics = &statistics;
  (void)layer.attention(random_array({1, time, 7}, 1), pass);
  return statistics.at(0, 0).score_count;
}

TEST(LatentCrossAttention, CostIsProportionalToLatentsTimesTokens) {
  for (const std::int64_t latents : {1, 8, 16}) {
    for (const std::int64_t time : {2, 128, 256}) {
      EXPECT_EQ(scores_of(latents, time), static_cast<double>(latents * time));
    }
  }
}

TEST(LatentCrossAttention, PaddingOfTheMemoryIsNotRead) {
  Layer layer;
  const Array real = random_array({1, 4, 7}, 1);
  const Array nan = Array::full({1, 2, 7}, NAN, DType::float64);
  const Mask padding = Mask::key_padding(1, {1, 1, 1, 1, 0, 0});
  Pass pass;
  pass.mask = &padding;
  expect_near(layer.attention(concat({Var(real), Var(nan)}, 1), pass).value(),
              layer.attention(real, {}).value(), 1e-14);
}

TEST(LatentCrossAttention, RefusesNoLatentsAndAMemoryOfAnotherRank) {
  Bench bench;
  LatentAttentionConfig none = kConfig;
  none.latents = 0;
  expect_throws<ConfigError>([&] { LatentCrossAttention(bench.root / "a", none, bench.init, 0); },
                             "latent attention: 0 latents, expected 1 or more");
  Layer layer;
  expect_throws<ShapeError>(
      [&] {
        (void)layer.attention(random_array({6, 7}, 1), {});
      },
      "latent attention: memory [6, 7], expected rank 3");
}

// Which of two symbols stands more often among 256 tokens, read by 8 latents.
TEST(LatentCrossAttention, ReadsAMajorityOffALongMemory) {
  constexpr std::int64_t kBatch = 16, kTime = 256;
  Bench bench(DType::float32);
  const InitScheme init("xavier", 0.5, 1);
  const Embedding embedding(bench.root / "embedding", 2, 16, init);
  const LatentCrossAttention attention(
      bench.root / "a", {.latents = 8, .model = 16, .memory = 16, .heads = 2, .head_dim = 8}, init,
      0);
  const Linear readout(bench.root / "readout", 8 * 16, 2, true, init);
  struct Examples {
    std::vector<std::int32_t> tokens, majority;
  };
  const auto draw = [&](std::uint32_t seed) {
    Examples examples;
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      RandomCursor cursor(Randomness{.seed = seed}.stream("majority"), b);
      const double share = cursor.uniform();
      int ones = 0;
      for (std::int64_t t = 0; t < kTime; ++t) {
        examples.tokens.push_back(cursor.uniform() < share ? 1 : 0);
        ones += examples.tokens.back();
      }
      examples.majority.push_back(2 * ones > kTime ? 1 : 0);
    }
    return examples;
  };
  const auto logits = [&](const Examples& examples, const Pass& pass) {
    const Var latents = attention(embedding(examples.tokens, {kBatch, kTime}, pass), pass);
    return readout(reshape(latents, {kBatch, 8 * 16}), pass);
  };
  descend(bench.store, 150, 0.01, [&](const Pass& pass) {
    const Examples examples = draw(pass.random.step);
    return multiply(cross_entropy(logits(examples, pass), examples.majority).loss_sum,
                    1.0 / kBatch);
  });
  std::int64_t correct = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Examples examples = draw(1'000'000 + seed);
    correct += cross_entropy(logits(examples, {}), examples.majority).correct;
  }
  EXPECT_GE(static_cast<double>(correct), 0.95 * 20 * kBatch);
}

}  // namespace attune::attention_latent_test
