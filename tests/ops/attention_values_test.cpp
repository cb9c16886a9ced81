#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "ops/attention_case.h"

namespace attune::attention_values_test {

// --- the worked example: cat, sat, mat; values from spec/attention.md 2.1, recomputed there in
// extended precision ---

struct WorkedExample {
  Array key, value;

  explicit WorkedExample(DType dtype)
      : key(Array::from({1, 3, 4}, {1, .8, .1, 0, 1, .5, .2, .1, .9, .4, .3, .2}, dtype)),
        value(Array::from({1, 3, 4}, {2, 1, 0, 1, 1.5, 1.2, .5, .8, 1.8, .9, .2, 1.1}, dtype)) {}
  [[nodiscard]] Array sat() const { return Array::from({1, 1, 4}, {1, .5, .2, .1}, key.dtype()); }
};

TEST(Attention, WorkedExampleInFloat32) {
  const WorkedExample x(DType::float32);
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.statistics = head;
  const Var y = attention(x.sat(), x.key, x.value, {}, options);
  expect_near(y.value(), std::vector<double>{1.770824, 1.035232, .229176, .964768}, 1e-6);
  EXPECT_NEAR(head[0].entropy_nats(), 1.097413, 1e-6);
  EXPECT_NEAR(head[0].entropy_norm(), .998909, 1e-6);
  EXPECT_NEAR(head[0].max_probability(), .353521, 1e-6);
  const Array identity = Array::from({1, 3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  expect_near(attention(x.sat(), x.key, identity, {}, {}).value(),
              std::vector<double>{.353521, .332934, .313545}, 1e-6);
}

TEST(Attention, WorkedExampleInFloat64) {
  const WorkedExample x(DType::float64);
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.statistics = head;
  const Var y = attention(x.sat(), x.key, x.value, {}, options);
  expect_near(y.value(),
              std::vector<double>{1.770824124658, 1.035232224193, .229175875341, .964767775806},
              1e-11);
  EXPECT_NEAR(head[0].entropy_nats(), 1.09741336773, 1e-11);
  const Array identity = Array::from({1, 3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}, DType::float64);
  expect_near(attention(x.sat(), x.key, identity, {}, {}).value(),
              std::vector<double>{.353521162836, .332933693031, .313545144131}, 1e-11);
}

TEST(Attention, WorkedExampleOfAllRows) {
  const WorkedExample x(DType::float64);
  const Array y = attention(x.key, x.key, x.value, {}, {}).value();
  expect_near(y,
              std::vector<double>{1.775126, 1.035571, .224874, .964429, 1.770824, 1.035232, .229176,
                                  .964768, 1.769004, 1.034682, .230996, .965318},
              1e-6);
}

TEST(Attention, WorkedExampleOfTheCausalRow) {
  const WorkedExample x(DType::float64);
  const Mask causal = Mask::causal();
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.mask = &causal;
  options.statistics = head;
  const Var two_queries = slice(Var(x.key), 1, 0, 2);
  const Var y =
      attention(two_queries, slice(Var(x.key), 1, 0, 2), slice(Var(x.value), 1, 0, 2), {}, options);
  expect_near(slice(y, 1, 1, 2).value(), std::vector<double>{1.757498, 1.097001, .242502, .902999},
              1e-6);
  EXPECT_EQ(head[0].rows_single, 1);
  EXPECT_EQ(head[0].rows_valid, 1);
  EXPECT_NEAR(head[0].entropy_nats(), .692697, 1e-6);
  EXPECT_NEAR(head[0].entropy_norm(), .999351, 1e-6);
}

// --- reported faults, values from spec/cases.md ---

TEST(Attention, FullyMaskedRowIsZeroWithZeroGradient) {  // B01
  for (const bool textbook : {false, true}) {
    const Mask mask = Mask::custom(1, 1, 2, 2, {1, 1, 0, 0});
    AttentionOptions options;
    options.mask = &mask;
    options.scale = 1;
    const auto f = [&](std::span<const Var> x) {
      return textbook ? attention_textbook(x[0], x[1], x[2], {}, options)
                      : attention(x[0], x[1], x[2], {}, options);
    };
    const std::vector<Array> inputs = {column({1, 1}), column({1, 2}), column({3, 5})};
    const std::vector<Var> constants(inputs.begin(), inputs.end());
    expect_near(f(constants).value(), {4.462117, 0}, 1e-6);
    for (const double weight_of_empty_row : {0.0, 1.0}) {
      const std::vector<Array> gradients =
          gradients_of(f, inputs, column({1, weight_of_empty_row}));
      expect_near(gradients[0], {.393224, 0}, 1e-6);
      expect_near(gradients[1], {-.393224, .393224}, 1e-6);
      expect_near(gradients[2], {.268941, .731059}, 1e-6);
    }
  }
}

TEST(Attention, NanInAValueThatNoQueryKeepsChangesNothing) {  // B02
  const Mask mask = Mask::custom(1, 1, 2, 2, {1, 0, 1, 0});
  AttentionOptions options;
  options.mask = &mask;
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Var y = attention(column({1, 1}, dtype), column({1, 1}, dtype), column({7, kNan}, dtype),
                            {}, options);
    expect_near(y.value(), {7, 7}, 0);
  }
}

// Runs a case once as it is and once with NaN in keys and values that no query keeps.
void expect_junk_changes_nothing(Case c, std::initializer_list<std::int64_t> keys) {
  const std::vector<Array> clean = c.inputs(DType::float32);
  std::vector<Array> junk = clean;
  for (const std::int64_t j : keys) {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t l = 0; l < c.kv_heads * c.head_dim; ++l)
        junk[1] = with_value(junk[1], {(b * c.key + j) * c.kv_heads * c.head_dim + l}, kNan);
      for (std::int64_t l = 0; l < c.kv_heads * c.value_dim; ++l)
        junk[2] = with_value(junk[2], {(b * c.key + j) * c.kv_heads * c.value_dim + l}, -kInfinity);
    }
  }
  const std::vector<Var> x(clean.begin(), clean.end()), z(junk.begin(), junk.end());
  EXPECT_TRUE(bitwise_equal(c.run(x).value(), c.run(z).value()));
  const Array seed = random_array({c.batch, c.query, c.heads * c.value_dim}, 3, DType::float32);
  const std::vector<Array> expected = gradients_of(c.function(), clean, seed);
  const std::vector<Array> got = gradients_of(c.function(), junk, seed);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << "gradient of input " << i;
  const std::vector<double> value_gradient = got[2].to_vector();
  for (const std::int64_t j : keys) {
    const std::int64_t width = c.kv_heads * c.value_dim;
    for (std::int64_t l = 0; l < width; ++l)
      EXPECT_EQ(value_gradient[static_cast<std::size_t>(j * width + l)], 0);
  }
}

TEST(Attention, NanInKeysThatNoQueryKeepsLeavesValuesAndGradientsBitwiseEqual) {  // B02
  for (const AttentionForm form :
       {AttentionForm::stored, AttentionForm::tiled, AttentionForm::sparse}) {
    Case c;
    c.form = form;
    c.mask = Mask::key_padding(2, {0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0});
    expect_junk_changes_nothing(c, {0, 3, 6});
    c.softcap = 2, c.dropout = 0.3, c.bias = true, c.kv_heads = 2;
    expect_junk_changes_nothing(c, {0, 3, 6});
  }
}

TEST(Attention, NanBeforeAWindowLeavesValuesAndGradientsBitwiseEqual) {
  for (const AttentionForm form :
       {AttentionForm::stored, AttentionForm::tiled, AttentionForm::sparse}) {
    Case c;
    c.form = form;
    c.query = 2, c.key = 21, c.mask = Mask::causal() & Mask::window(3);
    expect_junk_changes_nothing(c, {0, 1, 7, 8, 15, 16});
    c.softcap = 2;
    expect_junk_changes_nothing(c, {0, 16});
  }
}

TEST(Attention, CausalAndPaddingCombineByAnd) {  // B03
  const Mask mask = Mask::causal() & Mask::key_padding(1, {0, 0, 0, 1, 1});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Array zeros = Array::zeros({1, 5, 1}, dtype);
    std::vector<HeadStatistics> head(1);
    AttentionOptions options;
    options.mask = &mask;
    options.statistics = head;
    const Var y = attention(zeros, zeros, column({1, 2, 3, 4, 5}, dtype), {}, options);
    expect_near(y.value(), {0, 0, 0, 4, 4.5}, 0);
    EXPECT_EQ(head[0].rows_empty, 3);
    EXPECT_EQ(head[0].rows_single, 1);
    EXPECT_EQ(head[0].rows_valid, 1);
  }
}

TEST(Attention, PaddingIsOfKeysAndOfEachExample) {  // B04
  const Mask mask = Mask::key_padding(2, {1, 1, 0, 1, 0, 0});
  AttentionOptions options;
  options.mask = &mask;
  const Array zeros = Array::zeros({2, 3, 1}, DType::float64);
  const Array value = Array::from({2, 3, 1}, {1, 10, 1000, 1, 10, 1000}, DType::float64);
  expect_near(attention(zeros, zeros, value, {}, options).value(), {5.5, 5.5, 5.5, 1, 1, 1}, 1e-12);
}

TEST(Attention, CausalIsAlignedBottomRight) {  // B05
  const Mask causal = Mask::causal();
  AttentionOptions options;
  options.mask = &causal;
  const auto uniform = [&](std::int64_t query, const Array& value) {
    return attention(Array::zeros({1, query, 1}, DType::float64),
                     Array::zeros({1, value.shape()[1], 1}, DType::float64), value, {}, options)
        .value();
  };
  const Array five = column({1, 2, 3, 4, 5});
  expect_near(uniform(1, five), {3}, 1e-12);
  expect_near(uniform(2, five), {2.5, 3}, 1e-12);
  expect_near(uniform(3, five), {2, 2.5, 3}, 1e-12);
  expect_near(uniform(5, column({1, 2})), {0, 0, 0, 1, 1.5}, 1e-12);
}

TEST(Attention, RowsComputedInChunksAreBitwiseThoseOfOnePass) {  // B05
  const Mask causal = Mask::causal();
  AttentionOptions options;
  options.heads = 2;
  options.mask = &causal;
  const Var x = random_array({2, 41, 10}, 1, DType::float32);
  const Var value = random_array({2, 41, 6}, 2, DType::float32);
  const Var whole = attention(x, x, value, {}, options);
  for (const std::int64_t chunk : {1, 2, 3, 17}) {
    for (std::int64_t begin = 0; begin < 41; begin += chunk) {
      const std::int64_t end = std::min<std::int64_t>(begin + chunk, 41);
      const Var part = attention(slice(x, 1, begin, end), slice(x, 1, 0, end),
                                 slice(value, 1, 0, end), {}, options);
      EXPECT_TRUE(bitwise_equal(part.value(), slice(whole, 1, begin, end).value()))
          << begin << " to " << end;
    }
  }
}

TEST(Attention, FutureTokensChangeNoEarlierRow) {  // B06
  const Mask causal = Mask::causal();
  AttentionOptions options;
  options.mask = &causal;
  const Array x = random_array({1, 6, 3}, 1, DType::float32);
  const Var before = attention(x, x, x, {}, options);
  const Array changed = with_value(x, {12, 13, 14}, 9);
  const Var after = attention(changed, changed, changed, {}, options);
  EXPECT_TRUE(bitwise_equal(slice(before, 1, 0, 4).value(), slice(after, 1, 0, 4).value()));
  const Array first_changed = with_value(x, {0, 1, 2}, 9);
  const Var later = attention(first_changed, first_changed, first_changed, {}, options);
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_NE(later.value().at({0, i, 0}), before.value().at({0, i, 0})) << i;
}

TEST(Attention, GradientOfARowByLaterInputsIsExactlyZero) {
  Case c;
  c.query = c.key = 37, c.mask = Mask::causal(), c.batch = 1;
  for (const std::int64_t i : {0, 15, 16, 20}) {
    Array seed = Array::zeros({1, 37, 8}, DType::float32);
    for (std::int64_t l = 0; l < 8; ++l) seed = with_value(seed, {i * 8 + l}, 1);
    const std::vector<Array> gradients = gradients_of(c.function(), c.inputs(DType::float32), seed);
    for (const Array& gradient : gradients) {
      const std::int64_t width = gradient.shape()[2];
      const std::vector<double> values = gradient.to_vector();
      for (std::size_t at = static_cast<std::size_t>((i + 1) * width); at < values.size(); ++at)
        EXPECT_EQ(values[at], 0);
    }
  }
}

TEST(Attention, TwoHeadsAreTwoAttentionsOnColumnHalves) {  // B07
  const Var q = random_array({2, 5, 6}, 1), k = random_array({2, 7, 6}, 2),
            v = random_array({2, 7, 4}, 3);
  AttentionOptions two;
  two.heads = 2;
  const Var both = attention(q, k, v, {}, two);
  const Var left = attention(slice(q, 2, 0, 3), slice(k, 2, 0, 3), slice(v, 2, 0, 2), {}, {});
  const Var right = attention(slice(q, 2, 3, 6), slice(k, 2, 3, 6), slice(v, 2, 2, 4), {}, {});
  EXPECT_TRUE(bitwise_equal(both.value(), concat({left, right}, 2).value()));
}

}  // namespace attune::attention_values_test
