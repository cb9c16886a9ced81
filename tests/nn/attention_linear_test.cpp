#include "attune/nn/attention/linear.h"

#include <memory>

#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "nn/attention_test.h"

namespace attune::attention_linear_test {

// sum_j phi(q_i) . phi(k_j) v_j / sum_j phi(q_i) . phi(k_j), pair by pair.
Row by_hand(const Array& query, const Array& key, const Array& value, bool causal) {
  Row all;
  const Shape &q = query.shape(), &v = value.shape();
  const std::int64_t ahead = v[2] - q[2];
  for (std::int64_t b = 0; b < q[0]; ++b) {
    for (std::int64_t h = 0; h < q[1]; ++h) {
      for (std::int64_t i = 0; i < q[2]; ++i) {
        Row mixed(static_cast<std::size_t>(v[3]), 0.0);
        double total = 0;
        for (std::int64_t j = 0; j < (causal ? i + ahead + 1 : v[2]); ++j) {
          double weight = 0;
          for (std::int64_t f = 0; f < q[3]; ++f)
            weight += query.at({b, h, i, f}) * key.at({b, h, j, f});
          total += weight;
          for (std::int64_t c = 0; c < v[3]; ++c)
            mixed[static_cast<std::size_t>(c)] += weight * value.at({b, h, j, c});
        }
        for (double& element : mixed) element /= total;
        append(all, mixed);
      }
    }
  }
  return all;
}

Array features(std::int64_t time, std::uint64_t seed) {
  return random_array({2, 2, time, 3}, seed, DType::float64, 0, 1);
}

TEST(LinearAttention, EqualsTheSumOverPairsForAnyNumberOfChunks) {
  for (const std::int64_t time : {1, 5, 31, 32, 33, 64, 150, 512, 513, 700}) {
    const Array query = features(time, 1), key = features(time, 2);
    const Array value = random_array({2, 2, time, 4}, 3);
    for (const bool causal : {false, true}) {
      expect_near(linear_attention(query, key, value, causal).value(),
                  by_hand(query, key, value, causal), 1e-12);
    }
  }
}

TEST(LinearAttention, QueriesMayBeOfTheLastTokensAlone) {
  for (const std::int64_t queries : {1, 7, 70}) {
    const Array query = features(queries, 1), key = features(90, 2);
    const Array value = random_array({2, 2, 90, 4}, 3);
    expect_near(linear_attention(query, key, value, true).value(), by_hand(query, key, value, true),
                1e-12);
  }
}

TEST(LinearAttention, RecurrenceAndParallelFormAreEqual) {
  const Array query = features(150, 1), key = features(150, 2);
  const Array value = random_array({2, 2, 150, 4}, 3);
  const Var parallel = linear_attention(query, key, value, true);
  LinearAttentionState state;
  for (std::int64_t t = 0; t < 150; ++t) {
    const auto token = [&](const Array& x) { return slice(Var(x), 2, t, t + 1); };
    expect_near(linear_attention_step(token(query), token(key), token(value), state).value(),
                slice(parallel, 2, t, t + 1).value(), 1e-10);
  }
  EXPECT_EQ(to_string(state.sums.shape()), "[2, 2, 3, 5]") << "whatever was read";
}

TEST(LinearAttention, WithoutAnyKeyAQueryGetsZeros) {
  Array key = features(3, 2);
  const Var nothing = Array::zeros(key.shape(), DType::float64);
  const Array value = random_array({2, 2, 3, 4}, 3);
  expect_near(linear_attention(features(3, 1), nothing, value, true).value(), Row(48, 0.0), 0);
}

TEST(LinearAttention, GradientsAreThoseOfTheFormula) {
  for (const bool causal : {false, true}) {
    expect_gradients_match(
        [&](std::span<const Var> in) { return linear_attention(in[0], in[1], in[2], causal); },
        {random_array({1, 2, 3, 3}, 1, DType::float64, 0.1, 1),
         random_array({1, 2, 5, 3}, 2, DType::float64, 0.1, 1), random_array({1, 2, 5, 2}, 3)});
  }
}

// Beyond 512 tokens the state goes from part to part; the sum over pairs knows no parts.
TEST(LinearAttention, GradientsGoThroughTheStateBetweenParts) {
  constexpr std::int64_t kTime = 530;
  const auto input = [](std::uint64_t seed) {
    return random_array({1, 1, kTime, 2}, seed, DType::float64, 0.1, 1);
  };
  const std::vector<Array> inputs = {input(1), input(2), input(3)};
  const Array seed = random_array({1, 1, kTime, 2}, 4);
  std::vector<double> causal;
  for (std::int64_t i = 0; i < kTime; ++i)
    for (std::int64_t j = 0; j < kTime; ++j) causal.push_back(j <= i ? 1 : 0);
  const Array keep = Array::from({kTime, kTime}, causal, DType::float64);
  const auto pairs = [&](std::span<const Var> in) {
    const Var weights = matmul(in[0], in[1], Transpose::no, Transpose::yes) * Var(keep);
    return matmul(weights, in[2]) / sum(weights, -1, true);
  };
  const auto parts = [](std::span<const Var> in) {
    return linear_attention(in[0], in[1], in[2], true);
  };
  const std::vector<Array> ours = gradients_of(parts, inputs, seed);
  const std::vector<Array> expected = gradients_of(pairs, inputs, seed);
  for (std::size_t i = 0; i < ours.size(); ++i) expect_near(ours[i], expected[i], 1e-10);
}

TEST(EluFeatures, AreLinearAboveZeroAndExponentialBelow) {
  const Array x = Array::from({1, 1, 1, 5}, {-3, -0.5, 0, 0.5, 3}, DType::float64);
  expect_near(EluFeatures().of_keys(x).value(), {std::exp(-3), std::exp(-0.5), 1, 1.5, 4}, 1e-15);
  const Array slope =
      gradients_of([](std::span<const Var> in) { return EluFeatures().of_queries(in[0]); }, {x})[0];
  expect_near(slope, {std::exp(-3), std::exp(-0.5), 1, 1, 1}, 1e-15);
}

struct Layer {
  explicit Layer(const AttentionConfig& config)
      : none(make_positional_encoding("none", bench.root, {}, bench.init)),
        attention("linear", bench.root / "a", config, std::make_unique<EluFeatures>(), *none,
                  bench.init, 0) {
    randomize(bench.store, 1);
  }
  Bench bench;
  std::unique_ptr<PositionalEncoding> none;
  LinearAttention attention;
};

AttentionConfig small() {
  return {.model = 5, .heads = 2, .head_dim = 3, .value_dim = 2, .bias = true};
}

double elu_1(double x) { return x > 0 ? x + 1 : std::exp(x); }

TEST(LinearAttention, LayerEqualsTheFormula) {
  for (const bool causal : {true, false}) {
    AttentionConfig config = small();
    if (!causal) config.mask = Mask::none();
    Layer layer(config);
    const Array x = random_array({2, 6, 5}, 1);
    Row expected;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t i = 0; i < 6; ++i) {
        Row heads;
        for (std::int64_t h = 0; h < 2; ++h) {
          const Row query = part(mapped(layer.bench, "a.query", row_of(x, b, i)), 3 * h, 3);
          Row mixed(2, 0.0);
          double total = 0;
          for (std::int64_t j = 0; j < (causal ? i + 1 : 6); ++j) {
            const Row key = part(mapped(layer.bench, "a.key", row_of(x, b, j)), 3 * h, 3);
            double weight = 0;
            for (std::size_t c = 0; c < 3; ++c) weight += elu_1(query[c]) * elu_1(key[c]);
            total += weight;
            add_to(mixed, weight, part(mapped(layer.bench, "a.value", row_of(x, b, j)), 2 * h, 2));
          }
          for (double& element : mixed) element /= total;
          append(heads, mixed);
        }
        append(expected, mapped(layer.bench, "a.output", heads));
      }
    }
    expect_near(layer.attention(x, {}, {}).value(), expected, 1e-12);
  }
}

TEST(LinearAttention, LayerStepsThroughATextInTheSameWay) {
  Layer layer(small());
  const Array x = random_array({2, 80, 5}, 1);
  const Var all = layer.attention(x, {}, {});
  LinearAttentionState state;
  for (std::int64_t t = 0; t < 80; ++t) {
    expect_near(layer.attention.step(slice(Var(x), 1, t, t + 1), {}, state, {}).value(),
                slice(all, 1, t, t + 1).value(), 1e-10);
  }
}

TEST(LinearAttention, RefusesOtherMasksAndEncodingsOfScores) {
  AttentionConfig config = small();
  config.mask = Mask::causal() & Mask::window(4);
  expect_throws<ConfigError>([&] { Layer layer(config); },
                             "--attention linear: --mask is neither causal nor none");
  Bench bench;
  const auto alibi = make_positional_encoding(
      "alibi", bench.root, {.model = 6, .heads = 2, .head_dim = 3, .block_size = 8}, bench.init);
  expect_throws<ConfigError>(
      [&] {
        (void)make_self_attention("linear", bench.root, {.model = 6, .heads = 2, .head_dim = 3},
                                  *alibi, bench.init, 0);
      },
      "--attention linear: --pos alibi adds to scores, of which there are none, expected an "
      "encoding of embeddings or of queries and keys");
  Layer layer(small());
  const Mask window = Mask::window(2);
  const Mask odd = Mask::custom(1, 1, 3, 3, {1, 1, 1, 0, 1, 1, 1, 1, 1});
  for (const Mask& mask : {window, odd}) {
    Pass pass;
    pass.mask = &mask;
    expect_throws<UsageError>(
        [&] {
          (void)layer.attention(random_array({1, 3, 5}, 1), {}, pass);
        },
        "attention linear: the pass's mask is more than padding of keys");
  }
}

}  // namespace attune::attention_linear_test
