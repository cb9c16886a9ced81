#include "attune/nn/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "attune/nn/kv_cache.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/layer_test.h"

namespace attune::multi_head_attention_test {

constexpr DType kDouble = DType::float64;

std::unique_ptr<PositionalEncoding> no_encoding(Bench& bench) {
  return make_positional_encoding("none", bench.root / "position", {}, bench.init);
}

// A layer with random parameters, biases included, and no positional encoding.
struct Layer {
  explicit Layer(AttentionConfig config, DType dtype = kDouble)
      : bench(dtype),
        encoding(no_encoding(bench)),
        attention(bench.root / "attention", with_bias(config), *encoding, bench.init, 0) {
    randomize(bench.store);
  }
  static AttentionConfig with_bias(AttentionConfig config) {
    config.bias = true;
    return config;
  }
  [[nodiscard]] Array operator()(const Array& x, const Pass& pass = {}) const {
    return attention(x, {}, pass).value();
  }

  Bench bench;
  std::unique_ptr<PositionalEncoding> encoding;
  MultiHeadAttention attention;
};

AttentionConfig small() { return {.model = 6, .heads = 2, .head_dim = 3}; }

AttentionConfig unmasked(AttentionConfig config = small()) {
  config.mask = Mask::none();
  return config;
}

std::vector<double> project(Bench& bench, const char* name, const Array& x, std::int64_t b,
                            std::int64_t t) {
  const Array& weight = bench.value(std::string("attention.") + name + ".weight");
  const Array& bias = bench.value(std::string("attention.") + name + ".bias");
  std::vector<double> y;
  for (std::int64_t o = 0; o < weight.shape()[0]; ++o) {
    double sum = bias.at({o});
    for (std::int64_t c = 0; c < weight.shape()[1]; ++c) sum += weight.at({o, c}) * x.at({b, t, c});
    y.push_back(sum);
  }
  return y;
}

// The layer's output by the formula, in plain loops; causal, or everything kept.
std::vector<double> by_hand(Bench& bench, const AttentionConfig& config, const Array& x,
                            const Array& memory, std::int64_t kv_heads, std::int64_t value_dim) {
  std::vector<double> y;
  const bool causal = config.mask.is_causal();
  const std::int64_t queries = x.shape()[1], keys = memory.shape()[1];
  for (std::int64_t b = 0; b < x.shape()[0]; ++b) {
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::vector<double> query = project(bench, "query", x, b, i);
      Array mixed = Array::zeros({1, 1, config.heads * value_dim}, kDouble);
      for (std::int64_t h = 0; h < config.heads; ++h) {
        const std::int64_t g = h / (config.heads / kv_heads);
        double partition = 0;
        for (std::int64_t j = 0; j < (causal ? i + 1 + keys - queries : keys); ++j) {
          const std::vector<double> key = project(bench, "key", memory, b, j);
          const std::vector<double> value = project(bench, "value", memory, b, j);
          double score = 0;
          for (std::int64_t c = 0; c < config.head_dim; ++c) {
            score += query[static_cast<std::size_t>(h * config.head_dim + c)] *
                     key[static_cast<std::size_t>(g * config.head_dim + c)];
          }
          const double weight = std::exp(score / std::sqrt(static_cast<double>(config.head_dim)));
          partition += weight;
          for (std::int64_t c = 0; c < value_dim; ++c) {
            mixed.mutable_data<double>()[static_cast<std::size_t>(h * value_dim + c)] +=
                weight * value[static_cast<std::size_t>(g * value_dim + c)];
          }
        }
        for (std::int64_t c = 0; c < value_dim; ++c) {
          mixed.mutable_data<double>()[static_cast<std::size_t>(h * value_dim + c)] /= partition;
        }
      }
      const std::vector<double> row = project(bench, "output", mixed, 0, 0);
      y.insert(y.end(), row.begin(), row.end());
    }
  }
  return y;
}

TEST(MultiHeadAttention, EqualsTheFormula) {
  Layer layer(small());
  const Array x = random_array({2, 5, 6}, 1);
  expect_near(layer(x), by_hand(layer.bench, small(), x, x, 2, 3), 1e-12);
}

TEST(MultiHeadAttention, HeadAndValueWidthsAreFree) {
  const AttentionConfig config{.model = 7, .heads = 3, .head_dim = 5, .value_dim = 2};
  Layer layer(config);
  EXPECT_EQ(layer.bench.value("attention.query.weight").shape(), (Shape{15, 7}));
  EXPECT_EQ(layer.bench.value("attention.value.weight").shape(), (Shape{6, 7}));
  EXPECT_EQ(layer.bench.value("attention.output.weight").shape(), (Shape{7, 6}));
  const Array x = random_array({2, 4, 7}, 1);
  expect_near(layer(x), by_hand(layer.bench, config, x, x, 3, 2), 1e-12);
}

TEST(MultiHeadAttention, GroupsOfQueryHeadsShareAKeyHead) {
  const AttentionConfig config{.model = 5, .heads = 4, .kv_heads = 2, .head_dim = 3};
  Layer layer(config);
  EXPECT_EQ(layer.bench.value("attention.key.weight").shape(), (Shape{6, 5}));
  const Array x = random_array({1, 4, 5}, 1);
  expect_near(layer(x), by_hand(layer.bench, config, x, x, 2, 3), 1e-12);
}

TEST(MultiHeadAttention, CrossAttentionTakesAnotherLengthAndWidth) {
  AttentionConfig config = unmasked({.model = 5, .memory = 3, .heads = 2, .head_dim = 4});
  Layer layer(config);
  const Array x = random_array({2, 3, 5}, 1), memory = random_array({2, 7, 3}, 2);
  expect_near(layer.attention(x, memory, {}, {}).value(),
              by_hand(layer.bench, config, x, memory, 2, 4), 1e-12);
}

TEST(MultiHeadAttention, CrossAttentionRotatesQueriesAndKeysByTheirOwnPositions) {
  Bench bench;
  const PositionalConfig positional{.model = 4, .heads = 1, .head_dim = 4, .block_size = 4};
  const auto rope =
      make_positional_encoding("rope", bench.root / "position", positional, bench.init);
  const MultiHeadAttention attention(bench.root / "attention",
                                     unmasked({.model = 4, .heads = 1, .head_dim = 4}), *rope,
                                     bench.init, 0);
  const Array x = random_array({1, 2, 4}, 1), memory = random_array({1, 3, 4}, 2);
  const auto run = [&](std::int32_t query, std::int32_t key) {
    PositionContext context;
    context.query = Positions::range(query, 2);
    context.new_key = Positions::range(key, 3);
    rope->prepare(context, {});
    return attention(x, memory, context, {}).value();
  };
  expect_near(run(5, 9), run(105, 109), 1e-12);
  EXPECT_GT(std::abs(run(5, 9).at({0, 0, 0}) - run(5, 12).at({0, 0, 0})), 1e-4);
}

// B07: each head is a layer of its own on its rows of the projections; their outputs add up.
TEST(MultiHeadAttention, HeadsAreAsManySingleHeads) {
  AttentionConfig config = small();
  Bench bench;
  const auto encoding = no_encoding(bench);
  const MultiHeadAttention whole(bench.root / "whole", config, *encoding, bench.init, 0);
  randomize(bench.store);
  config.heads = 1;
  const Array x = random_array({2, 5, 6}, 1);
  std::vector<double> sum(60, 0.0);
  for (std::int64_t h = 0; h < 2; ++h) {
    Bench single;
    const MultiHeadAttention head(single.root / "head", config, *encoding, single.init, 0);
    for (const char* name : {"query", "key", "value"}) {
      const Array& weight = bench.value(std::string("whole.") + name + ".weight");
      single.store.find(std::string("head.") + name + ".weight")
          ->set_value(rows_of(weight, 3 * h, 3 * h + 3));
    }
    const Array columns =
        slice(Var(bench.value("whole.output.weight")), 1, 3 * h, 3 * h + 3).value();
    single.store.find("head.output.weight")->set_value(columns);
    const std::vector<double> y = head(x, {}, {}).value().to_vector();
    for (std::size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
  }
  expect_near(whole(x, {}, {}).value(), sum, 1e-12);
}

TEST(MultiHeadAttention, OutputDoesNotDependOnLaterTokens) {
  const Layer layer(small());
  for (std::int64_t i = 0; i < 5; ++i) {
    Tape tape;
    Pass pass;
    pass.tape = &tape;
    const Var x = tape.leaf(random_array({1, 5, 6}, 1));
    const Var y = layer.attention(x, {}, pass);
    const Array gradient = tape.backward(sum(slice(y, 1, i, i + 1)))[x];
    for (std::int64_t j = 0; j < 5; ++j) {
      double largest = 0;
      for (std::int64_t c = 0; c < 6; ++c) {
        largest = std::max(largest, std::abs(gradient.at({0, j, c})));
      }
      EXPECT_EQ(largest == 0, j > i) << i << " " << j << ": " << largest;
    }
  }
}

TEST(MultiHeadAttention, WithoutMaskPermutingTokensPermutesOutputs) {
  const Layer layer(unmasked());
  const Array x = random_array({1, 4, 6}, 1);
  const std::vector<std::int64_t> order = {2, 0, 3, 1};
  std::vector<Var> parts;
  for (const std::int64_t t : order) parts.push_back(slice(Var(x), 1, t, t + 1));
  const Array y = layer(x);
  const Array permuted = layer(concat(parts, 1).value());
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::int64_t c = 0; c < 6; ++c) {
      EXPECT_NEAR(permuted.at({0, static_cast<std::int64_t>(t), c}), y.at({0, order[t], c}), 1e-12);
    }
  }
}

// B03: three tokens of padding on the left, of which nothing, not even NaN, may be seen.
TEST(MultiHeadAttention, PaddingAndCausalEqualTheUnpaddedRun) {
  const Layer layer(small());
  const Array real = random_array({1, 4, 6}, 1);
  const Array nan = Array::full({1, 3, 6}, std::nan(""), kDouble);
  const Array padded = concat({Var(nan), Var(real)}, 1).value();
  const Mask padding = Mask::key_padding(1, {0, 0, 0, 1, 1, 1, 1});
  Pass pass;
  pass.mask = &padding;
  const Array y = slice(Var(layer(padded, pass)), 1, 3, 7).value();
  expect_near(y, layer(real), 1e-12);
}

// B04: every example has its own lengths.
TEST(MultiHeadAttention, PaddingIsPerExample) {
  const Layer layer(unmasked());
  const Array x = random_array({2, 3, 6}, 1);
  const std::vector<std::int64_t> lengths = {2, 1};
  const Mask padding = Mask::key_lengths(lengths, 3);
  Pass pass;
  pass.mask = &padding;
  const Array y = layer(x, pass);
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    const Array alone = slice(Var(rows_of(x, b, b + 1)), 1, 0, length).value();
    expect_near(slice(Var(rows_of(y, b, b + 1)), 1, 0, length).value(), layer(alone), 1e-12);
  }
}

// B06
TEST(MultiHeadAttention, ChangingATokenLeavesEarlierOutputsBitwiseAlone) {
  const Layer layer(small(), DType::float32);
  const Array x = random_array({1, 6, 6}, 1, DType::float32);
  Array changed = x.clone();
  for (std::size_t c = 0; c < 6; ++c) changed.mutable_data<float>()[4 * 6 + c] += 1;
  const Array before = layer(x), after = layer(changed);
  for (std::int64_t t = 0; t < 6; ++t) {
    bool equal = true;
    for (std::int64_t c = 0; c < 6; ++c)
      equal = equal && before.at({0, t, c}) == after.at({0, t, c});
    EXPECT_EQ(equal, t < 4) << t;
  }
}

// B05: chunks of every size through a cache.
TEST(MultiHeadAttention, CachedChunksEqualOnePass) {
  const Layer layer({.model = 6, .heads = 2, .head_dim = 3, .value_dim = 4});
  const Array x = random_array({2, 7, 6}, 1);
  const Array whole = layer(x);
  for (const std::int64_t chunk : {1, 2, 3, 5}) {
    KvCache cache(1, 2, 7, 6, 8, kDouble);
    Pass pass;
    pass.cache = &cache;
    for (std::int64_t begin = 0; begin < 7; begin += chunk) {
      const std::int64_t end = std::min<std::int64_t>(begin + chunk, 7);
      const Array y = layer(slice(Var(x), 1, begin, end).value(), pass);
      cache.advance(Positions::range(begin, end - begin));
      expect_near(y, slice(Var(whole), 1, begin, end).value(), 1e-12);
    }
  }
}

TEST(MultiHeadAttention, ACacheTakesNoTape) {
  const Layer layer(small());
  KvCache cache(1, 1, 4, 6, 6, kDouble);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  pass.cache = &cache;
  expect_throws<UsageError>(
      [&] {
        static_cast<void>(layer(random_array({1, 2, 6}, 1), pass));
      },
      "attention: a KV-cache carries no gradients, so takes no tape");
}

TEST(MultiHeadAttention, GradientsMatchDifferences) {
  Layer layer({.model = 5, .heads = 4, .kv_heads = 2, .head_dim = 3, .value_dim = 2, .softcap = 2});
  const Array x = random_array({2, 4, 5}, 1);
  expect_parameter_gradients_match(layer.bench.store, [&](Tape* tape) {
    Pass pass;
    pass.tape = tape;
    return sum(square(layer.attention(x, {}, pass)));
  });
}

TEST(MultiHeadAttention, EvaluationIsDeterministicAndIgnoresDropout) {  // B09
  AttentionConfig config = small();
  config.dropout = 0.5;
  const Layer dropping(config), plain(small());
  const Array x = random_array({2, 5, 6}, 1);
  Pass pass;
  pass.random = {.seed = 1, .step = 2};
  expect_near(dropping(x, pass), dropping(x, pass), 0);
  expect_near(dropping(x, pass), plain(x), 0);
}

TEST(MultiHeadAttention, TrainingDropsWeightsAtGlobalCoordinates) {
  AttentionConfig config = small();
  config.dropout = 0.5;
  const Layer layer(config);
  const Array x = random_array({3, 5, 6}, 1);
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 1, .step = 2};
  const Array whole = layer(x, pass);
  EXPECT_NE(whole.to_vector(), layer(x).to_vector());
  expect_near(layer(rows_of(x, 0, 1), pass), rows_of(whole, 0, 1), 0);
  pass.first_example = 1;
  expect_near(layer(rows_of(x, 1, 3), pass), rows_of(whole, 1, 3), 0);
}

TEST(MultiHeadAttention, HeadsThatDoNotShareEvenlyAreRefused) {
  Bench bench;
  const auto encoding = no_encoding(bench);
  expect_throws<ConfigError>(
      [&] {
        MultiHeadAttention(bench.root / "attention",
                           {.model = 6, .heads = 3, .kv_heads = 2, .head_dim = 2}, *encoding,
                           bench.init, 0);
      },
      "attention: 2 key heads do not divide 3 query heads");
}

TEST(MultiHeadAttention, NamesItsParameters) {
  Bench bench;
  const auto encoding = no_encoding(bench);
  const MultiHeadAttention attention(bench.root / "a", small(), *encoding, bench.init, 0);
  EXPECT_EQ(names_of(bench.store), (std::vector<std::string>{"a.query.weight", "a.key.weight",
                                                             "a.value.weight", "a.output.weight"}));
}

}  // namespace attune::multi_head_attention_test
