#include "attune/nn/attention/additive.h"

#include "attune/core/attention_statistics.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_additive_test {

constexpr DType kDouble = DType::float64;
constexpr AdditiveAttentionConfig kConfig{.decoder = 5, .encoder = 3, .hidden = 7, .bias = true};

struct Layer {
  Layer() : attention(bench.root / "a", kConfig, bench.init, 0) { randomize(bench.store, 1); }
  Bench bench;
  AdditiveAttention attention;
  Array query = random_array({2, 3, 5}, 1);
  Array memory = random_array({2, 4, 3}, 2);
};

// The weights of one query on the first `entries` entries of example b, by the formula.
Row weights_by_hand(Layer& layer, std::int64_t b, std::int64_t i, std::int64_t entries) {
  const Row asked = mapped(layer.bench, "a.query", row_of(layer.query, b, i));
  Row scores;
  for (std::int64_t j = 0; j < entries; ++j) {
    Row hidden = mapped(layer.bench, "a.key", row_of(layer.memory, b, j));
    for (std::size_t c = 0; c < hidden.size(); ++c) hidden[c] = std::tanh(hidden[c] + asked[c]);
    scores.push_back(mapped(layer.bench, "a.score", hidden)[0]);
  }
  return softmax_of(scores);
}

TEST(AdditiveAttention, EqualsTheFormulaForAnyTwoWidths) {
  Layer layer;
  Row weights, mixed;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 3; ++i) {
      const Row row = weights_by_hand(layer, b, i, 4);
      Row sum(3, 0.0);
      for (std::int64_t j = 0; j < 4; ++j)
        add_to(sum, row[static_cast<std::size_t>(j)], row_of(layer.memory, b, j));
      append(weights, row);
      append(mixed, sum);
    }
  }
  const Attended found = layer.attention(layer.query, layer.memory, {});
  EXPECT_EQ(to_string(found.mixed.shape()), "[2, 3, 3]");
  EXPECT_EQ(to_string(found.weights.shape()), "[2, 3, 4]");
  expect_near(found.weights.value(), weights, 1e-13);
  expect_near(found.mixed.value(), mixed, 1e-13);
}

TEST(AdditiveAttention, PaddingOfTheMemoryMayBeNanAndTakesNoWeight) {
  Layer layer;
  for (std::int64_t c = 0; c < 3; ++c)
    layer.memory.mutable_data<double>()[static_cast<std::size_t>(2 * 3 + c)] = NAN;  // entry (0, 2)
  for (std::int64_t c = 0; c < 3; ++c)
    layer.memory.mutable_data<double>()[static_cast<std::size_t>(3 * 3 + c)] = NAN;  // entry (0, 3)
  const std::vector<std::int64_t> lengths = {2, 4};
  const Mask padding = Mask::key_lengths(lengths, 4);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  pass.mask = &padding;
  const Attended found = layer.attention(layer.query, layer.memory, pass);
  for (std::int64_t i = 0; i < 3; ++i) {
    const Row expected = weights_by_hand(layer, 0, i, 2);
    double sum = 0;
    for (std::int64_t j = 0; j < 4; ++j) {
      const double weight = found.weights.value().at({0, i, j});
      EXPECT_NEAR(weight, j < 2 ? expected[static_cast<std::size_t>(j)] : 0, 1e-14);
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-14);
  }
  const Gradients gradients = tape.backward(found.mixed, Array::full({2, 3, 3}, 1, kDouble));
  for (const Parameter& parameter : layer.bench.store) {
    for (const double slope : gradients[parameter].to_vector())
      EXPECT_TRUE(std::isfinite(slope)) << parameter.name();
  }
}

TEST(AdditiveAttention, StepByStepOverKeysMadeOnceIsTheSame) {
  Layer layer;
  const Attended all = layer.attention(layer.query, layer.memory, {});
  const Var keys = layer.attention.keys(layer.memory, {});
  for (std::int64_t i = 0; i < 3; ++i) {
    const Var query = slice(Var(layer.query), 1, i, i + 1);
    expect_near(layer.attention.attend(query, keys, layer.memory, {}).mixed.value(),
                slice(all.mixed, 1, i, i + 1).value(), 1e-14);
  }
}

TEST(AdditiveAttention, LogsTheEntropyOfItsWeights) {
  Layer layer;
  AttentionStatistics statistics(1, 1);
  Pass pass;
  pass.statistics = &statistics;
  const Attended found = layer.attention(layer.query, layer.memory, pass);
  double entropy = 0;
  for (const double weight : found.weights.value().to_vector())
    entropy -= weight * std::log(weight);
  EXPECT_EQ(statistics.at(0, 0).rows_valid, 6);
  EXPECT_NEAR(statistics.at(0, 0).entropy_nats(), entropy / 6, 1e-13);
}

TEST(AdditiveAttention, RefusesOtherWidths) {
  Layer layer;
  expect_throws<ShapeError>([&] { (void)layer.attention(layer.memory, layer.memory, {}); },
                            "additive attention: query [2, 4, 3], expected [batch, time, 5]");
  expect_throws<ShapeError>([&] { (void)layer.attention(layer.query, layer.query, {}); },
                            "additive attention: memory [2, 3, 5], expected [batch, time, 3]");
}

}  // namespace attune::attention_additive_test
