#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "ops/attention_case.h"

// Normalisers other than softmax, sinks, and heads that talk: values against a loop that follows
// the definitions, gradients, statistics.
namespace attune::attention_normaliser_test {

struct Form {
  Normaliser normaliser = Normaliser::softmax;
  bool sink = false;
  bool mix_scores = false;
  bool mix_weights = false;
};

constexpr Form kForms[] = {{.normaliser = Normaliser::sigmoid},
                           {.normaliser = Normaliser::relu},
                           {.sink = true},
                           {.mix_scores = true},
                           {.mix_weights = true},
                           {.sink = true, .mix_scores = true, .mix_weights = true},
                           {.normaliser = Normaliser::sigmoid, .mix_scores = true}};

Case small_case() {
  Case c;
  c.kv_heads = 2;
  c.mask = random_mask(c, 4, 5) & Mask::causal();
  return c;
}

// query, key, value, sink [heads], mix of scores, mix of weights [heads, heads].
std::vector<Array> inputs_of(const Case& c) {
  std::vector<Array> inputs = c.inputs(DType::float64);
  inputs.push_back(random_array({c.heads}, 7));
  inputs.push_back(random_array({c.heads, c.heads}, 8));
  inputs.push_back(random_array({c.heads, c.heads}, 9));
  return inputs;
}

Var run(const Case& c, const Form& form, std::span<const Var> x,
        std::span<HeadStatistics> statistics = {}) {
  AttentionOptions options = c.options(statistics);
  options.normaliser = form.normaliser;
  if (form.sink) options.sink = x[3];
  if (form.mix_scores) options.mix_scores = x[4];
  if (form.mix_weights) options.mix_weights = x[5];
  return attention(x[0], x[1], x[2], {}, options);
}

// Weights of one row: over its keys, and of the sink behind them.
std::vector<double> weights_of(const std::vector<double>& scores, const std::vector<bool>& keep,
                               const Form& form, double sink) {
  const auto n = static_cast<double>(std::count(keep.begin(), keep.end(), true));
  std::vector<double> weights(scores.size() + 1, 0.0);
  double total = form.sink ? std::exp(sink) : 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (!keep[j]) continue;
    switch (form.normaliser) {
      case Normaliser::softmax:
        total += std::exp(scores[j]);
        break;
      case Normaliser::sigmoid:
        weights[j] = 1 / (1 + n * std::exp(-scores[j]));
        break;
      case Normaliser::relu:
        weights[j] = std::max(scores[j], 0.0) / n;
        break;
    }
  }
  if (form.normaliser != Normaliser::softmax || total == 0) return weights;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (keep[j]) weights[j] = std::exp(scores[j]) / total;
  if (form.sink) weights.back() = std::exp(sink) / total;
  return weights;
}

struct Expected {
  std::vector<double> output;             // [batch, query, heads * value_dim]
  std::vector<std::vector<double>> rows;  // weights with the sink's, [batch, query, heads]
};

Expected expected(const Case& c, const Form& form, const std::vector<Array>& x) {
  const std::int64_t group = c.heads / c.kv_heads;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  Expected result;
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < c.query; ++i) {
      std::vector<std::vector<double>> raw(size(c.heads)), weights(size(c.heads));
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t j = 0; j < c.key; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < c.head_dim; ++d)
            dot +=
                x[0].at({b, i, h * c.head_dim + d}) * x[1].at({b, j, h / group * c.head_dim + d});
          raw[size(h)].push_back(dot / std::sqrt(static_cast<double>(c.head_dim)));
        }
      for (std::int64_t h = 0; h < c.heads; ++h) {
        std::vector<double> scores = raw[size(h)];
        std::vector<bool> keep;
        for (std::int64_t j = 0; j < c.key; ++j) {
          keep.push_back(c.mask.keeps(b, h, i, j, c.query, c.key));
          if (!form.mix_scores) continue;
          scores[size(j)] = 0;
          for (std::int64_t g = 0; g < c.heads; ++g)
            scores[size(j)] += x[4].at({h, g}) * raw[size(g)][size(j)];
        }
        weights[size(h)] = weights_of(scores, keep, form, x[3].at({h}));
        result.rows.push_back(weights[size(h)]);
      }
      for (std::int64_t h = 0; h < c.heads; ++h)
        for (std::int64_t v = 0; v < c.value_dim; ++v) {
          double sum = 0;
          for (std::int64_t j = 0; j < c.key; ++j) {
            double weight = weights[size(h)][size(j)];
            if (form.mix_weights) {
              weight = 0;
              for (std::int64_t g = 0; g < c.heads; ++g)
                weight += x[5].at({h, g}) * weights[size(g)][size(j)];
            }
            sum += weight * x[2].at({b, j, h / group * c.value_dim + v});
          }
          result.output.push_back(sum);
        }
    }
  return result;
}

// Keys that no query of their group keeps are zeros, and mixing makes that visible: keep them all
// out of the loop's way.
Case mixing_case() {
  Case c = small_case();
  c.mask = Mask::causal();
  return c;
}

TEST(AttentionNormaliser, ValuesFollowTheDefinitions) {
  for (const Form& form : kForms) {
    const Case c = form.mix_scores || form.mix_weights ? mixing_case() : small_case();
    const std::vector<Array> inputs = inputs_of(c);
    const std::vector<Var> x(inputs.begin(), inputs.end());
    expect_near(run(c, form, x).value(), expected(c, form, inputs).output, 1e-12);
  }
}

TEST(AttentionNormaliser, GradientsMatchFiniteDifferences) {
  const Case c = small_case();
  for (const Form& form : kForms)
    expect_gradients_match([&](std::span<const Var> x) { return run(c, form, x); }, inputs_of(c));
}

// Entropies are in nats over kept keys and the sink; of shares where rows are no distribution.
TEST(AttentionNormaliser, StatisticsAreOfWhatTheRowsAre) {
  for (const Form& form : kForms) {
    const Case c = mixing_case();
    const std::vector<Array> inputs = inputs_of(c);
    const std::vector<Var> x(inputs.begin(), inputs.end());
    std::vector<HeadStatistics> statistics(static_cast<std::size_t>(c.heads));
    static_cast<void>(run(c, form, x, statistics));
    const Expected naive = expected(c, form, inputs);
    const bool shares = form.normaliser != Normaliser::softmax;
    for (std::size_t h = 0; h < statistics.size(); ++h) {
      double entropy = 0, row_sums = 0, sink_mass = 0;
      std::int64_t valid = 0;
      for (std::size_t row = h; row < naive.rows.size(); row += statistics.size()) {
        const std::vector<double>& weights = naive.rows[row];
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        if (total == 0) continue;
        ++valid;
        row_sums += total;
        sink_mass += weights.back();
        for (const double weight : weights)
          if (weight > 0) entropy -= weight / total * std::log(weight / total);
      }
      EXPECT_EQ(statistics[h].shares, shares);
      EXPECT_EQ(statistics[h].rows_valid, valid);
      EXPECT_EQ(statistics[h].violations, 0);
      EXPECT_NEAR(statistics[h].entropy_sum, entropy, 1e-10);
      EXPECT_NEAR(statistics[h].sink_mass_sum, sink_mass, 1e-10);
      EXPECT_NEAR(statistics[h].row_sum(), shares ? row_sums / static_cast<double>(valid) : 1,
                  1e-10);
    }
  }
}

// spec: talking heads with the identity are the plain layer.
TEST(AttentionNormaliser, MixingByTheIdentityChangesNothing) {
  const Case c = small_case();
  std::vector<Array> inputs = inputs_of(c);
  std::vector<double> identity(static_cast<std::size_t>(c.heads * c.heads), 0);
  for (std::int64_t h = 0; h < c.heads; ++h)
    identity[static_cast<std::size_t>(h * (c.heads + 1))] = 1;
  inputs[4] = inputs[5] = Array::from({c.heads, c.heads}, identity, DType::float64);
  const std::vector<Var> x(inputs.begin(), inputs.end());
  expect_near(run(c, {.mix_scores = true, .mix_weights = true}, x).value(),
              run(c, {}, x).value().to_vector(), 1e-12);
}

TEST(AttentionNormaliser, ASinkFarBelowIsSoftmaxAndFarAboveTakesEverything) {
  const Case c = small_case();
  std::vector<Array> inputs = inputs_of(c);
  const auto with_sink = [&](double logit) {
    inputs[3] = Array::full({c.heads}, logit, DType::float64);
    return run(c, {.sink = true}, std::vector<Var>(inputs.begin(), inputs.end())).value();
  };
  const std::vector<Var> x(inputs.begin(), inputs.end());
  expect_near(with_sink(-200), run(c, {}, x).value().to_vector(), 1e-12);
  for (const double y : with_sink(200).to_vector()) EXPECT_NEAR(y, 0, 1e-60);
}

// Scores divided by t are those of queries divided by t.
TEST(AttentionNormaliser, TemperatureDividesTheScoresOfItsHead) {
  const Case c = small_case();
  std::vector<Array> inputs = inputs_of(c);
  inputs[3] = random_array({c.heads}, 3, DType::float64, 0.5, 3);
  const auto with_temperature = [&](std::span<const Var> x) {
    AttentionOptions options = c.options();
    options.temperature = x[3];
    return attention(x[0], x[1], x[2], {}, options);
  };
  std::vector<double> query = inputs[0].to_vector();
  for (std::size_t i = 0; i < query.size(); ++i) {
    const auto head = static_cast<std::int64_t>(i) / c.head_dim % c.heads;
    query[i] /= inputs[3].at({head});
  }
  const std::vector<Var> x(inputs.begin(), inputs.end());
  std::vector<Array> divided = inputs;
  divided[0] = Array::from(inputs[0].shape(), query, DType::float64);
  expect_near(with_temperature(x).value(),
              run(c, {}, std::vector<Var>(divided.begin(), divided.end())).value().to_vector(),
              1e-12);
  expect_gradients_match(with_temperature, inputs);
}

TEST(AttentionNormaliser, MaskedKeysMayHoldNan) {
  Case c = small_case();
  c.mask = Mask::key_padding(2, {1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0});
  std::vector<Array> clean = inputs_of(c), poisoned = clean;
  const std::int64_t key_row = c.kv_heads * c.head_dim, value_row = c.kv_heads * c.value_dim;
  poisoned[1] = with_value(clean[1], {5 * key_row}, kNan);
  poisoned[2] = with_value(clean[2], {5 * value_row}, kNan);
  for (const Form& form : kForms) {
    const auto value = [&](const std::vector<Array>& inputs) {
      return run(c, form, std::vector<Var>(inputs.begin(), inputs.end())).value();
    };
    EXPECT_TRUE(bitwise_equal(value(clean), value(poisoned)));
  }
}

TEST(AttentionNormaliser, DropoutIsOnTheWeightsBeforeMixing) {
  Case c = mixing_case();
  c.dropout = 1;
  const std::vector<Array> inputs = inputs_of(c);
  const std::vector<Var> x(inputs.begin(), inputs.end());
  for (const Form& form : kForms)
    for (const double y : run(c, form, x).value().to_vector()) EXPECT_EQ(y, 0);
}

TEST(AttentionNormaliser, RefusesWhatDoesNotFit) {
  const Case c = small_case();
  std::vector<Array> inputs = inputs_of(c);
  inputs[3] = random_array({c.heads + 1}, 1);
  const std::vector<Var> x(inputs.begin(), inputs.end());
  const auto message = [](auto f) -> std::string {
    try {
      static_cast<void>(f());
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message([&] { return run(c, {.sink = true}, x); }),
            "attention_textbook: the sink is float64 [5], expected float64 [4]");
  inputs[3] = random_array({c.heads}, 1);
  const std::vector<Var> fits(inputs.begin(), inputs.end());
  EXPECT_EQ(message([&] { return run(c, {.normaliser = Normaliser::relu, .sink = true}, fits); }),
            "attention_textbook: a sink belongs to a softmax");
}

}  // namespace attune::attention_normaliser_test
