#include "attune/nn/attention/location_sensitive.h"

#include <algorithm>
#include <optional>

#include "attune/core/random.h"
#include "attune/nn/embedding.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/loss.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_location_sensitive_test {

LocationSensitiveConfig config(bool cumulative) {
  return {{.decoder = 5, .encoder = 3, .hidden = 4, .bias = true}, 2, 3, cumulative};
}

struct Layer {
  explicit Layer(bool cumulative) : attention(bench.root / "a", config(cumulative), bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  LocationSensitiveAttention attention;
  Array query = random_array({2, 3, 5}, 1);
  Array memory = random_array({2, 4, 3}, 2);
};

// Weights [batch, steps, key] by the formula, step by step.
Row by_hand(Layer& layer, bool cumulative) {
  Row all;
  const Array& filter = layer.bench.value("a.filter.weight");
  for (std::int64_t b = 0; b < 2; ++b) {
    Row history(4, 0.0);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Row asked = mapped(layer.bench, "a.query", row_of(layer.query, b, i));
      Row scores;
      for (std::int64_t j = 0; j < 4; ++j) {
        Row seen(2, 0.0);  // f_ij
        for (std::int64_t f = 0; f < 2; ++f)
          for (std::int64_t d = -1; d <= 1; ++d)
            if (j + d >= 0 && j + d < 4)
              seen[static_cast<std::size_t>(f)] +=
                  filter.at({f, d + 1}) * history[static_cast<std::size_t>(j + d)];
        Row hidden = mapped(layer.bench, "a.key", row_of(layer.memory, b, j));
        add_to(hidden, 1, mapped(layer.bench, "a.location", seen));
        add_to(hidden, 1, asked);
        for (double& unit : hidden) unit = std::tanh(unit);
        scores.push_back(mapped(layer.bench, "a.score", hidden)[0]);
      }
      const Row weights = softmax_of(scores);
      if (!cumulative) history.assign(4, 0.0);
      add_to(history, 1, weights);
      append(all, weights);
    }
  }
  return all;
}

TEST(LocationSensitiveAttention, EqualsTheFormulaWithTheLastAndWithAllEarlierWeights) {
  for (const bool cumulative : {false, true}) {
    Layer layer(cumulative);
    const Attended found = layer.attention(layer.query, layer.memory, {});
    expect_near(found.weights.value(), by_hand(layer, cumulative), 1e-13);
    EXPECT_EQ(to_string(found.mixed.shape()), "[2, 3, 3]");
  }
}

TEST(LocationSensitiveAttention, RefusesEvenFiltersAndSeveralQueriesAStep) {
  Bench bench;
  LocationSensitiveConfig even = config(true);
  even.width = 4;
  expect_throws<ConfigError>(
      [&] { LocationSensitiveAttention(bench.root / "a", even, bench.init, 0); },
      "location-sensitive attention: filters of width 4, expected an odd number");
  Layer layer(true);
  const Var keys = layer.attention.keys(layer.memory, {});
  expect_throws<ShapeError>(
      [&] {
        (void)layer.attention.step(layer.query, keys, layer.memory,
                                   layer.attention.start(layer.memory), {});
      },
      "location-sensitive attention: query [2, 3, 5] and history [2, 4], expected [batch, 1, "
      "decoder] and [2, 4]");
}

// Copying a text from left to right. A decoder knows the symbol that it wrote last; each entry of
// the memory knows its symbol and the one before. Content alone finds the next entry where the last
// symbol stands once, and cannot tell two occurrences apart.
struct Copying {
  static constexpr std::int64_t kBatch = 16, kLength = 8, kSymbols = 4, kWidth = 16;

  explicit Copying(bool sees_location)
      : now(bench.root / "now", kSymbols, kWidth, init),
        before(bench.root / "before", kSymbols + 1, kWidth, init),
        last(bench.root / "last", kSymbols + 1, kWidth, init),
        readout(bench.root / "readout", 2 * kWidth, kSymbols, false, init) {
    const AdditiveAttentionConfig content{kWidth, 2 * kWidth, 2 * kWidth, true};
    if (sees_location) {
      location.emplace(bench.root / "attention", LocationSensitiveConfig{content, 4, 5, false},
                       init, 0);
    } else {
      additive.emplace(bench.root / "attention", content, init, 0);
    }
  }

  struct Texts {
    std::vector<std::int32_t> symbols, previous;  // [batch, length]; nothing before: kSymbols
  };
  static Texts draw(std::uint32_t seed) {
    Texts texts;
    for (std::uint32_t b = 0; b < kBatch; ++b) {
      RandomCursor cursor(Randomness{.seed = seed}.stream("texts"), b);
      for (std::int64_t t = 0; t < kLength; ++t) {
        texts.previous.push_back(t == 0 ? std::int32_t{kSymbols} : texts.symbols.back());
        texts.symbols.push_back(static_cast<std::int32_t>(cursor.below(kSymbols)));
      }
    }
    return texts;
  }
  Attended read(const Texts& texts, const Pass& pass) const {
    const Shape shape{kBatch, kLength};
    const Var memory =
        concat({now(texts.symbols, shape, pass), before(texts.previous, shape, pass)}, 2);
    const Var query = last(texts.previous, shape, pass);
    return location ? (*location)(query, memory, pass) : (*additive)(query, memory, pass);
  }
  void train(int steps) {
    descend(bench.store, steps, 0.01, [&](const Pass& pass) {
      const Texts texts = draw(pass.random.step);
      const Var logits = readout(read(texts, pass).mixed, pass);
      return multiply(cross_entropy(logits, texts.symbols).loss_sum, 1.0 / (kBatch * kLength));
    });
  }
  // Share of the steps whose largest weight lies on the entry that is to be copied.
  [[nodiscard]] double monotonic_rate() const {
    const Array weights = read(draw(1'000'000), {}).weights.value();
    int met = 0;
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (std::int64_t t = 0; t < kLength; ++t) {
        const Row row = row_of(weights, b, t);
        met += std::ranges::max_element(row) - row.begin() == t ? 1 : 0;
      }
    }
    return met / static_cast<double>(kBatch * kLength);
  }

  Bench bench{DType::float32};
  InitScheme init{"xavier", 0.5, 1};
  Embedding now, before, last;
  Linear readout;
  std::optional<LocationSensitiveAttention> location;
  std::optional<AdditiveAttention> additive;
};

TEST(LocationSensitiveAttention, FollowsATextWithRepeatsWhereContentAloneDoesNot) {
  Copying with(true), without(false);
  with.train(400);
  without.train(400);
  EXPECT_GE(with.monotonic_rate(), 0.99);
  EXPECT_LE(without.monotonic_rate(), 0.75);
}

}  // namespace attune::attention_location_sensitive_test
