#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "attune/ops/reduce.h"
#include "model/model_test.h"
#include "nn/encoding_test.h"

// Encodings whose terms depend on content: shaw, transformer-xl and cope, each against a loop over
// queries and keys of the test's own.
namespace attune::content_encoding_test {

constexpr DType kDouble = DType::float64;

// --- shaw: Shaw et al. 2018 ---

PositionalConfig two_layers() {
  PositionalConfig config = config_of(6, 2);
  config.layers = 2;
  config.value_dim = 5;
  return config;
}

std::int64_t clipped(std::int64_t distance) {
  return std::clamp<std::int64_t>(distance, -16, 16) + 16;
}

TEST(ShawEncoding, AddsAVectorOfTheClippedDistanceToKeysAndValues) {
  Bench bench;
  const auto shaw = make("shaw", bench, two_layers());
  const Positions query{2, 3, {20, 21, 22, 0, 1, 40}}, key = Positions::range(0, 23);
  const PositionContext context = context_of(*shaw, query, key);
  const Array q = random_array({2, 3, 6}, 1), scores = random_array({2, 2, 3, 23}, 2),
              weights = random_array({2, 2, 3, 23}, 3);
  for (const int layer : {0, 1}) {
    const Array& keys = bench.value("position." + std::to_string(layer) + ".key");
    const Array& values = bench.value("position." + std::to_string(layer) + ".value");
    ASSERT_EQ(keys.shape(), (Shape{33, 3}));
    ASSERT_EQ(values.shape(), (Shape{33, 5}));
    const Array bias = shaw->content_bias(q, Var(), scores, {}, layer, context, {}).value();
    const Array term = shaw->value_term(weights, layer, context, {}).value();
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < 3; ++i) {
          std::vector<double> mixed(5, 0);
          for (std::int64_t j = 0; j < 23; ++j) {
            const std::int64_t c = clipped(j - query.row(b)[i]);
            double product = 0;
            for (std::int64_t d = 0; d < 3; ++d)
              product += q.at({b, i, 3 * h + d}) * keys.at({c, d});
            EXPECT_NEAR(bias.at({b, h, i, j}), product / std::sqrt(3), 1e-12);
            for (std::int64_t d = 0; d < 5; ++d)
              mixed[static_cast<std::size_t>(d)] += weights.at({b, h, i, j}) * values.at({c, d});
          }
          for (std::int64_t d = 0; d < 5; ++d)
            EXPECT_NEAR(term.at({b, i, 5 * h + d}), mixed[static_cast<std::size_t>(d)], 1e-12);
        }
      }
    }
  }
}

TEST(ShawEncoding, TermsFollowTheScoreScale) {
  Bench bench;
  PositionalConfig config = two_layers();
  config.score_scale = 1;
  const auto unscaled = make_positional_encoding("shaw", bench.root / "a", config, bench.init);
  config.score_scale = 0.25;
  const auto scaled = make_positional_encoding("shaw", bench.root / "a2", config, bench.init);
  bench.store.find("a2.0.key")->set_value(bench.value("a.0.key"));
  const Array q = random_array({1, 3, 6}, 1), scores = random_array({1, 2, 3, 3}, 2);
  const PositionContext context =
      context_of(*scaled, Positions::range(0, 3), Positions::range(0, 3));
  const Var quarter = scaled->content_bias(q, Var(), scores, {}, 0, context, {});
  const Var whole = unscaled->content_bias(q, Var(), scores, {}, 0, context, {});
  expect_near(quarter.value(),
              plus_scaled(Array::zeros(whole.shape(), kDouble), whole.value(), 0.25), 1e-12);
}

// --- transformer-xl: Dai et al. 2019 ---

struct XlTerms {
  Bench bench;
  std::unique_ptr<PositionalEncoding> encoding;
  Array q = random_array({1, 5, 4}, 1), key = random_array({1, 5, 4}, 2);
  Positions positions = Positions::range(0, 5);
  PositionContext context;

  explicit XlTerms(bool causal) {
    PositionalConfig config = config_of(4, 2);
    config.causal = causal;
    config.layers = 2;
    encoding = make("transformer-xl", bench, config);
    randomize(bench.store);
    context = context_of(*encoding, positions, positions);
  }
  // (q_i + v) . W r_distance of one head and layer, unscaled.
  double by_distance(std::int64_t i, std::int64_t h, std::int64_t distance) {
    const double far = static_cast<double>(distance);
    const double waves[] = {std::sin(far), std::sin(far / 100), std::cos(far), std::cos(far / 100)};
    double sum = 0;
    for (std::int64_t d = 2 * h; d < 2 * h + 2; ++d) {
      double mapped = 0;
      for (std::int64_t m = 0; m < 4; ++m)
        mapped += bench.value("position.1.weight").at({d, m}) * waves[m];
      sum += (q.at({0, i, d}) + bench.value("position.distance").at({d})) * mapped;
    }
    return sum;
  }
  // u . k_j of one head.
  double by_key(std::int64_t j, std::int64_t h) {
    double sum = 0;
    for (std::int64_t d = 2 * h; d < 2 * h + 2; ++d)
      sum += bench.value("position.content").at({d}) * key.at({0, j, d});
    return sum;
  }
  Array bias() {
    const Array keep = Array::full({1, 2, 5, 5}, 1, kDouble);
    return encoding->content_bias(q, key, {}, keep, 1, context, {}).value();
  }
};

TEST(TransformerXlEncoding, TermsAreThePapersForEveryPair) {
  for (const bool causal : {true, false}) {
    XlTerms terms(causal);
    const Array bias = terms.bias();
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < (causal ? i + 1 : 5); ++j) {
          const double expected = terms.by_key(j, h) + terms.by_distance(i, h, i - j);
          EXPECT_NEAR(bias.at({0, h, i, j}), expected / std::sqrt(2), 1e-12);
        }
      }
    }
  }
}

// Two query heads to a key head, and a key that no query may see and is no number.
TEST(TransformerXlEncoding, KeysAreSharedByHeadsAndUnseenOnesDoNotMatter) {
  XlTerms terms(true);
  std::vector<double> shared, flags;
  for (std::int64_t j = 0; j < 5; ++j)
    for (std::int64_t d = 0; d < 2; ++d)
      shared.push_back(j == 2 ? std::nan("") : terms.key.at({0, j, d}));
  for (std::int64_t n = 0; n < 2 * 5 * 5; ++n) flags.push_back(n % 5 == 2 ? 0 : 1);
  const Array keep = Array::from({1, 2, 5, 5}, flags, kDouble);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Var bias = terms.encoding->content_bias(terms.q, Array::from({1, 5, 2}, shared, kDouble),
                                                {}, keep, 1, terms.context, pass);
  const Array& content = terms.bench.value("position.content");
  for (std::int64_t h = 0; h < 2; ++h) {
    const double by_key = content.at({2 * h}) * terms.key.at({0, 1, 0}) +
                          content.at({2 * h + 1}) * terms.key.at({0, 1, 1});
    EXPECT_NEAR(bias.value().at({0, h, 4, 1}), (by_key + terms.by_distance(4, h, 3)) / std::sqrt(2),
                1e-12);
  }
  const Gradients gradients = tape.backward(sum(bias));
  for (const double slope : gradients[*terms.bench.store.find("position.content")].to_vector())
    EXPECT_TRUE(std::isfinite(slope));
}

// The authors' shift: rows over distances 4 .. 0, a column of zeros in front, the same numbers read
// as one row more of one column less, the first row dropped. What stands ahead of the query is
// garbage.
TEST(TransformerXlEncoding, EqualsTheRelativeShiftUnderTheCausalMask) {
  XlTerms terms(true);
  const Array bias = terms.bias();
  for (std::int64_t h = 0; h < 2; ++h) {
    std::vector<double> padded;
    for (std::int64_t i = 0; i < 5; ++i) {
      padded.push_back(0);
      for (std::int64_t distance = 4; distance >= 0; --distance)
        padded.push_back(terms.by_distance(i, h, distance));
    }
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const double shifted = padded[static_cast<std::size_t>((i + 1) * 5 + j)];
        EXPECT_NEAR(bias.at({0, h, i, j}), (terms.by_key(j, h) + shifted) / std::sqrt(2), 1e-12);
      }
    }
  }
}

TEST(TransformerXlEncoding, OddWidthsAreRefused) {
  Bench bench;
  expect_throws<ConfigError>(
      [&] { static_cast<void>(make("transformer-xl", bench, config_of(9, 3))); },
      "--pos transformer-xl: needs an even --n-embd, not 9");
}

// --- cope: Golovneva et al. 2024 ---

TEST(CopeEncoding, InterpolatesBetweenPositionsThatGatesCount) {
  Bench bench;
  const auto cope = make("cope", bench, config_of(6, 2, 3));
  const Array table = random_array({3, 3}, 9);
  bench.store.find("position.0.table")->set_value(table);
  const Array q = random_array({2, 5, 6}, 1),
              scores = random_array({2, 2, 5, 5}, 2, kDouble, -3, 3);
  std::vector<double> flags;  // causal, and the second key of the second example is padding
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 5; ++i)
        for (std::int64_t j = 0; j < 5; ++j) flags.push_back(j <= i && !(b == 1 && j == 1) ? 1 : 0);
  const Array keep = Array::from({2, 2, 5, 5}, flags, kDouble);
  const Array bias = cope->content_bias(q, Var(), scores, keep, 0, {}, {}).value();
  double largest = 0;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
          double position = 0;
          for (std::int64_t k = j; k <= i; ++k) {
            if (b == 1 && k == 1) continue;
            position += 1 / (1 + std::exp(-scores.at({b, h, i, k})));
          }
          largest = std::max(largest, position);
          position = std::min(position, 2.0);
          const auto below = static_cast<std::int64_t>(std::floor(position));
          const auto above = static_cast<std::int64_t>(std::ceil(position));
          double lower = 0, upper = 0;
          for (std::int64_t d = 0; d < 3; ++d) {
            lower += q.at({b, i, 3 * h + d}) * table.at({below, d});
            upper += q.at({b, i, 3 * h + d}) * table.at({above, d});
          }
          const double part = position - static_cast<double>(below);
          EXPECT_NEAR(bias.at({b, h, i, j}), (1 - part) * lower + part * upper, 1e-12);
        }
      }
    }
  }
  EXPECT_GT(largest, 2.1) << "a position that is clipped";
}

TEST(CopeEncoding, StartsAsNoEncodingAndLearns) {
  TransformerConfig config = small_config();
  config.positions = "cope";
  Transformer cope(config, 1, kDouble);
  config.positions = "none";
  const Transformer none(config, 1, kDouble);
  const std::vector<std::int32_t> tokens = random_tokens(13), targets = random_tokens(13, 2);
  expect_near(logits_of(cope, tokens), logits_of(none, tokens), 1e-12);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Gradients gradients = tape.backward(cope.loss({tokens, 1, 13}, targets, pass).loss_sum);
  double largest = 0;
  for (const double slope : gradients[*cope.parameters().find("position.0.table")].to_vector())
    largest = std::max(largest, std::abs(slope));
  EXPECT_GT(largest, 1e-9);
}

TEST(CopeEncoding, TableIsAsLongAsTheTrainedLengthUpTo64) {
  for (const auto& [block, rows] : {std::pair{5, 5}, std::pair{64, 64}, std::pair{500, 64}}) {
    Bench bench;
    static_cast<void>(make("cope", bench, config_of(6, 2, block)));
    EXPECT_EQ(bench.value("position.0.table").shape(), (Shape{rows, 3}));
  }
}

}  // namespace attune::content_encoding_test
