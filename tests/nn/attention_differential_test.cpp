#include "attune/nn/attention/differential.h"

#include <memory>

#include "nn/attention_test.h"

namespace attune::attention_differential_test {

constexpr DType kDouble = DType::float64;

AttentionConfig small() { return {.model = 5, .heads = 4, .head_dim = 3, .bias = true}; }

struct Layer {
  explicit Layer(int layer = 0, const AttentionConfig& config = small())
      : none(make_positional_encoding("none", bench.root, {}, bench.init)),
        attention(bench.root / "a", config, *none, bench.init, layer) {
    randomize(bench.store, 1);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> none;
  DifferentialAttention attention;
};

double lambda_by_hand(Bench& bench, double init) {
  const auto vector = [&](const char* name) {
    return bench.value(std::string("a.lambda_") + name).to_vector();
  };
  return std::exp(dot(vector("query_1"), vector("key_1"))) -
         std::exp(dot(vector("query_2"), vector("key_2"))) + init;
}

// The weights of map m of query i on the tokens up to it, and the entropy they have.
Row weights_by_hand(Layer& layer, const Array& x, std::int64_t b, std::int64_t i, std::int64_t m) {
  const Row query = part(mapped(layer.bench, "a.query", row_of(x, b, i)), 3 * m, 3);
  Row scores;
  for (std::int64_t j = 0; j <= i; ++j) {
    const Row key = part(mapped(layer.bench, "a.key", row_of(x, b, j)), 3 * m, 3);
    scores.push_back(dot(query, key) / std::sqrt(3.0));
  }
  return softmax_of(scores);
}

TEST(DifferentialAttention, EqualsTheFormula) {
  for (const int depth : {0, 3}) {
    Layer layer(depth);
    const double init = 0.8 - 0.6 * std::exp(-0.3 * depth);
    const double lambda = lambda_by_hand(layer.bench, init);
    const Array x = random_array({2, 4, 5}, 1);
    Row expected;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 4; ++i) {
        Row heads;
        for (std::int64_t g = 0; g < 2; ++g) {
          const Row first = weights_by_hand(layer, x, b, i, 2 * g);
          const Row second = weights_by_hand(layer, x, b, i, 2 * g + 1);
          Row mixed(6, 0.0);
          for (std::int64_t j = 0; j <= i; ++j) {
            const auto at = static_cast<std::size_t>(j);
            add_to(mixed, first[at] - lambda * second[at],
                   part(mapped(layer.bench, "a.value", row_of(x, b, j)), 6 * g, 6));
          }
          const double root = std::sqrt(dot(mixed, mixed) / 6 + 1e-6);
          for (std::int64_t c = 0; c < 6; ++c) {
            heads.push_back(mixed[static_cast<std::size_t>(c)] / root *
                            layer.bench.value("a.norm.gain").at({c}) * (1 - init));
          }
        }
        append(expected, mapped(layer.bench, "a.output", heads));
      }
    }
    expect_near(layer.attention(x, {}, {}).value(), expected, 1e-12);
  }
}

TEST(DifferentialAttention, LambdaStartsNearItsInitialValueOfTheDepth) {
  for (const int depth : {0, 1, 11}) {
    Bench bench;
    const auto none = make_positional_encoding("none", bench.root, {}, bench.init);
    AttentionConfig config = small();
    config.head_dim = 32;
    const DifferentialAttention attention(bench.root / "a", config, *none, bench.init, depth);
    EXPECT_NEAR(attention.lambda({}).value().item(), 0.8 - 0.6 * std::exp(-0.3 * depth), 0.3);
    EXPECT_NEAR(attention.lambda({}).value().item(),
                lambda_by_hand(bench, 0.8 - 0.6 * std::exp(-0.3 * depth)), 1e-14);
  }
}

// What both maps attend to alike cancels where lambda is 1.
TEST(DifferentialAttention, EqualMapsCancelAtLambdaOne) {
  Layer layer;
  for (const char* name : {"query", "key"}) {
    for (const char* kind : {".weight", ".bias"}) {
      Parameter* parameter = layer.bench.store.find(std::string("a.") + name + kind);
      Row values = parameter->value().to_vector();
      const std::size_t map = values.size() / 4;  // rows of one map
      for (std::size_t head = 0; head < 2; ++head)
        for (std::size_t i = 0; i < map; ++i)
          values[(2 * head + 1) * map + i] = values[2 * head * map + i];
      parameter->set_value(Array::from(parameter->shape(), values, kDouble));
    }
  }
  // exp(lq1 . lk1) - exp(0) + 0.2 = 1 for lq1 . lk1 = ln 1.8
  const auto set = [&](const char* name, double value) {
    layer.bench.store.find(name)->set_value(Array::from({3}, {value, 0, 0}, kDouble));
  };
  set("a.lambda_query_1", 1);
  set("a.lambda_key_1", std::log(1.8));
  set("a.lambda_query_2", 0);
  EXPECT_NEAR(layer.attention.lambda({}).value().item(), 1, 1e-14);
  const Array y = layer.attention(random_array({1, 4, 5}, 1), {}, {}).value();
  const Row bias = layer.bench.value("a.output.bias").to_vector();
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t c = 0; c < 5; ++c)
      EXPECT_NEAR(y.at({0, i, c}), bias[static_cast<std::size_t>(c)], 1e-9);
}

TEST(DifferentialAttention, LogsBothMapsOfEachHead) {
  Layer layer;
  AttentionStatistics statistics(1, 4);
  Pass pass;
  pass.statistics = &statistics;
  const Array x = random_array({2, 4, 5}, 1);
  (void)layer.attention(x, {}, pass);
  for (int m = 0; m < 4; ++m) {
    double entropy = 0;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < 4; ++i)
        for (const double weight : weights_by_hand(layer, x, b, i, m))
          entropy -= weight * std::log(weight);
    EXPECT_EQ(statistics.at(0, m).rows_valid, 6);
    EXPECT_NEAR(statistics.at(0, m).entropy_sum, entropy, 1e-12) << m;
  }
}

TEST(DifferentialAttention, HasTheParametersOfMultiHeadAttentionAndItsOwn) {
  Layer layer;
  EXPECT_EQ(to_string(layer.bench.value("a.query.weight").shape()), "[12, 5]");
  EXPECT_EQ(to_string(layer.bench.value("a.value.weight").shape()), "[12, 5]");
  EXPECT_EQ(to_string(layer.bench.value("a.output.weight").shape()), "[5, 12]");
  EXPECT_EQ(to_string(layer.bench.value("a.norm.gain").shape()), "[6]");
  EXPECT_FALSE(layer.bench.store.find("a.lambda_key_2")->options().decays);
}

TEST(DifferentialAttention, RefusesAnOddNumberOfMaps) {
  AttentionConfig config = small();
  config.heads = 3;
  expect_throws<ConfigError>([&] { Layer layer(0, config); },
                             "--attention differential: 3 heads, expected an even number: two maps "
                             "make a head");
}

}  // namespace attune::attention_differential_test
