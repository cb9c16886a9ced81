#include "attune/ops/attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/shaping.h"
#include "ops/op_test.h"

namespace attune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array column(std::initializer_list<double> values, DType dtype = DType::float64) {
  return Array::from({1, static_cast<std::int64_t>(values.size()), 1}, values, dtype);
}

bool bitwise_equal(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && dispatch(a.dtype(), [&]<class T>() {
           return a.size() == 0 || std::memcmp(a.data<T>().data(), b.data<T>().data(),
                                               static_cast<std::size_t>(a.bytes())) == 0;
         });
}

Array with_value(const Array& x, std::initializer_list<std::int64_t> flat, double value) {
  std::vector<double> values = x.to_vector();
  for (const std::int64_t at : flat) values[static_cast<std::size_t>(at)] = value;
  return Array::from(x.shape(), values, x.dtype());
}

// One set of extents, a mask, and options, on which both implementations run.
struct Case {
  std::int64_t batch = 2, heads = 4, kv_heads = 4, query = 5, key = 7, head_dim = 3, value_dim = 2;
  Mask mask;
  bool bias = false;
  bool bias_per_example = false;
  double softcap = 0;
  double dropout = 0;
  double scale = 0;

  [[nodiscard]] std::vector<Array> inputs(DType dtype) const {
    std::vector<Array> arrays = {
        random_array({batch, query, heads * head_dim}, 1, dtype, -2, 2),
        random_array({batch, key, kv_heads * head_dim}, 2, dtype, -2, 2),
        random_array({batch, key, kv_heads * value_dim}, 3, dtype, -2, 2)};
    if (bias) {
      arrays.push_back(
          random_array({bias_per_example ? batch : 1, heads, query, key}, 4, dtype, -2, 2));
    }
    return arrays;
  }
  [[nodiscard]] AttentionOptions options(std::span<HeadStatistics> statistics = {}) const {
    AttentionOptions options;
    options.heads = heads;
    options.kv_heads = kv_heads;
    options.scale = scale;
    options.softcap = softcap;
    options.mask = &mask;
    options.dropout = {.rate = dropout, .stream = RandomStream(11, 3, 5), .first_example = 6};
    options.statistics = statistics;
    return options;
  }
  [[nodiscard]] Var run(std::span<const Var> x, bool textbook = false,
                        std::span<HeadStatistics> statistics = {}) const {
    const Var none;
    const Var& b = bias ? x[3] : none;
    return textbook ? attention_textbook(x[0], x[1], x[2], b, options(statistics))
                    : attention(x[0], x[1], x[2], b, options(statistics));
  }
  [[nodiscard]] DifferentiableFunction function(bool textbook = false) const {
    return [this, textbook](std::span<const Var> x) { return run(x, textbook); };
  }
};

Mask random_mask(const Case& c, std::int64_t heads, std::uint64_t seed) {
  const Array draw = random_array({c.batch, heads, c.query, c.key}, seed, DType::float64, 0, 1);
  std::vector<std::uint8_t> keep;
  for (const double u : draw.to_vector()) keep.push_back(u < 0.6);
  return Mask::custom(c.batch, heads, c.query, c.key, keep);
}

std::vector<Case> cases() {
  std::vector<Case> all(1);
  const auto add = [&](auto change) {
    Case c;
    change(c);
    all.push_back(c);
  };
  add([](Case& c) { c.mask = Mask::causal(); });
  add([](Case& c) { c.mask = Mask::causal(), c.query = 7, c.key = 5; });
  add([](Case& c) { c.mask = Mask::causal() & Mask::window(3), c.query = 37, c.key = 41; });
  add([](Case& c) { c.mask = Mask::window(2), c.query = c.key = 35; });
  add([](Case& c) { c.mask = random_mask(c, 4, 9), c.bias = true; });
  add([](Case& c) { c.mask = random_mask(c, 1, 10) & Mask::causal(), c.dropout = 0.3; });
  add([](Case& c) {
    c.mask = Mask::key_padding(2, {0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0}) & Mask::causal();
    c.bias = c.bias_per_example = true;
  });
  add([](Case& c) { c.kv_heads = 2, c.softcap = 1.5, c.bias = true, c.mask = Mask::causal(); });
  add([](Case& c) {
    c.kv_heads = 1, c.softcap = 0.7, c.dropout = 0.5, c.scale = 0.9, c.mask = random_mask(c, 4, 12);
  });
  add([](Case& c) {
    c.query = 19, c.key = 23, c.head_dim = 17, c.value_dim = 11, c.dropout = 0.2, c.bias = true;
    c.mask = Mask::causal();
  });
  add([](Case& c) { c.query = 1, c.mask = Mask::causal(); });
  add([](Case& c) { c.batch = c.heads = c.kv_heads = c.query = c.key = c.head_dim = 1; });
  return all;
}

void expect_statistics_near(const HeadStatistics& a, const HeadStatistics& b, double tolerance) {
  const auto near = [&](double x, double y, const char* name) {
    EXPECT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y))) << name;
  };
  near(a.entropy_sum, b.entropy_sum, "entropy_sum");
  near(a.log_keys_sum, b.log_keys_sum, "log_keys_sum");
  near(a.normalized_sum, b.normalized_sum, "normalized_sum");
  near(a.effective_keys_sum, b.effective_keys_sum, "effective_keys_sum");
  near(a.max_probability_sum, b.max_probability_sum, "max_probability_sum");
  near(a.score_sum, b.score_sum, "score_sum");
  near(a.score_square_sum, b.score_square_sum, "score_square_sum");
  near(a.score_row_variance_sum, b.score_row_variance_sum, "score_row_variance_sum");
  near(a.score_count, b.score_count, "score_count");
  near(a.score_max_abs, b.score_max_abs, "score_max_abs");
  near(a.distance_sum, b.distance_sum, "distance_sum");
  EXPECT_EQ(a.rows_valid, b.rows_valid);
  EXPECT_EQ(a.rows_single, b.rows_single);
  EXPECT_EQ(a.rows_empty, b.rows_empty);
  EXPECT_EQ(a.violations, b.violations);
}

// --- the fused kernel against the textbook composition ---

void expect_fused_equals_textbook(const Case& c, DType dtype, double tolerance) {
  const std::vector<Array> arrays = c.inputs(dtype);
  const std::vector<Var> constants(arrays.begin(), arrays.end());
  std::vector<HeadStatistics> fused(4), textbook(4);
  const std::span heads_fused = std::span(fused).first(static_cast<std::size_t>(c.heads));
  const std::span heads_textbook = std::span(textbook).first(static_cast<std::size_t>(c.heads));
  expect_near(c.run(constants, false, heads_fused).value(),
              c.run(constants, true, heads_textbook).value(), tolerance);
  for (std::size_t h = 0; h < 4; ++h)
    expect_statistics_near(fused[h], textbook[h], 10 * tolerance);

  const Array seed = random_array({c.batch, c.query, c.heads * c.value_dim}, 77, dtype);
  const std::vector<Array> got = gradients_of(c.function(), arrays, seed);
  const std::vector<Array> expected = gradients_of(c.function(true), arrays, seed);
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    expect_near(got[i], expected[i], tolerance);
  }
}

TEST(Attention, EqualsTextbookInFloat64) {
  std::size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    expect_fused_equals_textbook(c, DType::float64, 1e-12);
  }
}

TEST(Attention, EqualsTextbookInFloat32) {
  std::size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    expect_fused_equals_textbook(c, DType::float32, 1e-5);
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  std::size_t index = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    expect_gradients_match(c.function(), c.inputs(DType::float64));
  }
}

TEST(Attention, TextbookGradientsMatchFiniteDifferences) {
  Case c;
  c.kv_heads = 2, c.softcap = 1.5, c.bias = true, c.dropout = 0.2;
  c.mask = Mask::causal() & random_mask(c, 4, 8);
  expect_gradients_match(c.function(true), c.inputs(DType::float64));
}

TEST(Attention, GradientsAddUpWhereOneVarIsQueryKeyAndValue) {
  Case c;
  c.query = c.key = 5, c.value_dim = c.head_dim = 3, c.mask = Mask::causal();
  const auto f = [&](bool textbook) {
    return [&c, textbook](std::span<const Var> x) {
      const Var all[] = {x[0], x[0], x[0]};
      return c.run(all, textbook);
    };
  };
  const std::vector<Array> x = {random_array({2, 5, 12}, 5)};
  expect_gradients_match(f(false), x);
  expect_near(gradients_of(f(false), x)[0], gradients_of(f(true), x)[0], 1e-12);
}

TEST(Attention, ConstantInputsGetNoGradientAndChangeNoOther) {
  Case c;
  c.bias = true, c.mask = Mask::causal(), c.query = c.key = 7;
  const std::vector<Array> arrays = c.inputs(DType::float64);
  const Array seed = random_array({2, 7, 8}, 6);
  const std::vector<Array> all = gradients_of(c.function(), arrays, seed);
  for (std::size_t only = 0; only < arrays.size(); ++only) {
    const auto f = [&](std::span<const Var> leaf) {
      std::vector<Var> x(arrays.begin(), arrays.end());
      x[only] = leaf[0];
      return c.run(x);
    };
    EXPECT_TRUE(bitwise_equal(gradients_of(f, {arrays[only]}, seed)[0], all[only])) << only;
  }
}

TEST(Attention, SizesZeroGiveEmptyOrZeroResults) {
  for (const auto& [batch, query, key] :
       {std::array<std::int64_t, 3>{0, 3, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}) {
    for (const bool textbook : {false, true}) {
      Case c;
      c.batch = batch, c.query = query, c.key = key, c.mask = Mask::causal();
      const std::vector<Array> arrays = c.inputs(DType::float32);
      std::vector<HeadStatistics> statistics(4);
      const std::vector<Var> x(arrays.begin(), arrays.end());
      const Var y = c.run(x, textbook, statistics);
      EXPECT_EQ(to_string(y.shape()), to_string(Shape{batch, query, 8}));
      for (const double value : y.value().to_vector()) EXPECT_EQ(value, 0);
      EXPECT_EQ(statistics[0].rows_empty, key == 0 ? batch * query : 0);
      for (const Array& gradient : gradients_of(c.function(textbook), arrays))
        for (const double value : gradient.to_vector()) EXPECT_EQ(value, 0);
    }
  }
}

// --- the worked example: cat, sat, mat; values from spec/attention.md 2.1, recomputed there in extended precision ---

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
  expect_near(
      y.value(),
      std::vector<double>{1.770824124658, 1.035232224193, .229175875341, .964767775806}, 1e-11);
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
  const Var y = attention(two_queries, slice(Var(x.key), 1, 0, 2), slice(Var(x.value), 1, 0, 2), {},
                          options);
  expect_near(
      slice(y, 1, 1, 2).value(),
      std::vector<double>{1.757498, 1.097001, .242502, .902999}, 1e-6);
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

TEST(Attention, NanInKeysThatNoQueryKeepsLeavesValuesAndGradientsBitwiseEqual) {
  Case c;
  c.mask = Mask::key_padding(2, {0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0});
  expect_junk_changes_nothing(c, {0, 3, 6});
  c.softcap = 2, c.dropout = 0.3, c.bias = true, c.kv_heads = 2;
  expect_junk_changes_nothing(c, {0, 3, 6});
}

TEST(Attention, NanBeforeAWindowLeavesValuesAndGradientsBitwiseEqual) {
  Case c;
  c.query = 2, c.key = 21, c.mask = Mask::causal() & Mask::window(3);
  expect_junk_changes_nothing(c, {0, 1, 7, 8, 15, 16});
  c.softcap = 2;
  expect_junk_changes_nothing(c, {0, 16});
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
    const std::vector<Array> gradients =
        gradients_of(c.function(), c.inputs(DType::float32), seed);
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
  const Var left =
      attention(slice(q, 2, 0, 3), slice(k, 2, 0, 3), slice(v, 2, 0, 2), {}, {});
  const Var right =
      attention(slice(q, 2, 3, 6), slice(k, 2, 3, 6), slice(v, 2, 2, 4), {}, {});
  EXPECT_TRUE(bitwise_equal(both.value(), concat({left, right}, 2).value()));
}

// --- dropout ---

TEST(Attention, DropoutRateZeroIsTheIdentityAndRateOneGivesZeros) {  // B09
  Case c;
  const std::vector<Array> arrays = c.inputs(DType::float32);
  const std::vector<Var> x(arrays.begin(), arrays.end());
  const Array kept = c.run(x).value();
  c.dropout = 1;
  for (const double value : c.run(x).value().to_vector()) EXPECT_EQ(value, 0);
  for (const Array& gradient : gradients_of(c.function(), arrays))
    for (const double value : gradient.to_vector()) EXPECT_EQ(value, 0);
  c.dropout = 0;
  EXPECT_TRUE(bitwise_equal(c.run(x).value(), kept));
}

TEST(Attention, DropoutKeepsTheExpectation) {
  // Uniform weights over 50 keys of value 1: a row is 2/50 times the number of kept keys, of which 50 are
  // binomial with p = 1/2. Over 2000 rows the mean of O is 1 +- 3 sqrt(1/50/2000).
  Case c;
  c.batch = 20, c.heads = c.kv_heads = 1, c.query = 100, c.key = 50, c.head_dim = c.value_dim = 1;
  c.dropout = 0.5;
  const Array zero_query = Array::zeros({20, 100, 1}, DType::float32);
  const Array zero_key = Array::zeros({20, 50, 1}, DType::float32);
  const Array ones = Array::full({20, 50, 1}, 1, DType::float32);
  const std::vector<Var> x = {zero_query, zero_key, ones};
  double mean = 0, square = 0;
  for (const double value : c.run(x).value().to_vector()) {
    mean += value / 2000;
    square += value * value / 2000;
  }
  EXPECT_NEAR(mean, 1, 3 * std::sqrt(1.0 / 50 / 2000));
  // Variance of a row: 1/50; that of its estimate over 2000 rows is about 2/2000 of its square.
  EXPECT_NEAR(square - mean * mean, 0.02, 3 * 0.02 * std::sqrt(2.0 / 2000));
}

TEST(Attention, ShardsDropWhatTheWholeBatchDrops) {
  Case c;
  c.batch = 5, c.dropout = 0.4;
  const std::vector<Array> arrays = c.inputs(DType::float32);
  const std::vector<Var> x(arrays.begin(), arrays.end());
  const Var whole = c.run(x);
  AttentionOptions options = c.options();
  options.dropout.first_example += 3;
  const Var shard = attention(slice(x[0], 0, 3, 5), slice(x[1], 0, 3, 5), slice(x[2], 0, 3, 5), {},
                              options);
  EXPECT_TRUE(bitwise_equal(shard.value(), slice(whole, 0, 3, 5).value()));
}

// --- statistics ---

TEST(Attention, StatisticsChangeNoBitAndIgnoreDropout) {
  Case c;
  c.query = c.key = 37, c.mask = Mask::causal();
  const std::vector<Array> arrays = c.inputs(DType::float32);
  const std::vector<Var> x(arrays.begin(), arrays.end());
  std::vector<HeadStatistics> without(4), with(4);
  const Array plain = c.run(x).value();
  EXPECT_TRUE(bitwise_equal(c.run(x, false, without).value(), plain));
  c.dropout = 0.5;
  (void)c.run(x, false, with);
  for (std::size_t h = 0; h < 4; ++h) expect_statistics_near(with[h], without[h], 0);
}

TEST(Attention, EntropyOfUniformRowsIsOneNormalised) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    std::vector<HeadStatistics> head(1);
    AttentionOptions options;
    options.statistics = head;
    const Array zeros = Array::zeros({1, 64, 3}, dtype);
    (void)attention(zeros, zeros, zeros, {}, options);
    EXPECT_NEAR(head[0].entropy_norm(), 1, dtype == DType::float32 ? 1e-6 : 1e-12);
    EXPECT_EQ(head[0].rows_valid, 64);
    EXPECT_EQ(head[0].violations, 0);
  }
}

TEST(Attention, EntropyOfOneHotRowsIsZero) {
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.scale = 1;
  options.statistics = head;
  (void)attention(column({1}), column({0, 2000, 0}), column({1, 1, 1}), {}, options);
  EXPECT_EQ(head[0].entropy_nats(), 0);
  EXPECT_EQ(head[0].violations, 0);
  EXPECT_EQ(head[0].max_probability(), 1);
}

TEST(Attention, ScoresOfMinusInfinityCountAsNotKept) {
  const Array bias = Array::from({1, 1, 1, 3}, {0, -kInfinity, 0}, DType::float64);
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.statistics = head;
  const Var y = attention(column({0}), column({0, 0, 0}), column({1, 2, 4}), bias, options);
  expect_near(y.value(), {2.5}, 1e-12);
  EXPECT_NEAR(head[0].entropy_nats(), std::log(2.0), 1e-12);
  EXPECT_NEAR(head[0].entropy_norm(), 1, 1e-12);
}

TEST(Attention, EntropyOfStandardNormalScoresAtSixtyFourKeys) {
  // spec/attention.md, section 4: .885 +- .01 without a mask.
  const RandomStream stream = Randomness{.seed = 4}.stream("scores");
  std::vector<double> scores;
  for (std::uint64_t i = 0; i < 64 * 64; ++i) scores.push_back(stream.normal(i));
  const Array bias = Array::from({1, 1, 64, 64}, scores, DType::float32);
  const Array zeros = Array::zeros({1, 64, 1}, DType::float32);
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.statistics = head;
  (void)attention(zeros, zeros, zeros, bias, options);
  EXPECT_NEAR(head[0].entropy_norm(), .885, .01);
  EXPECT_NEAR(head[0].score_std(), 1, .05);
}

TEST(Attention, NanScoresSpreadOverTheirRowAlone) {
  const Array bias = Array::from({1, 1, 2, 2}, {0, kNan, 0, 0}, DType::float32);
  const Array zeros = Array::zeros({1, 2, 1}, DType::float32);
  const Var y = attention(zeros, zeros, column({1, 2}, DType::float32), bias, {});
  expect_near(y.value(), {kNan, 1.5}, 1e-6);
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionOptions options;
  options.scale = 1e4;
  const Var y = attention(column({1}, DType::float32), column({1, 2}, DType::float32),
                          column({3, 5}, DType::float32), {}, options);
  expect_near(y.value(), {5}, 0);
}

// --- shards and errors ---

TEST(Attention, AnExampleDoesNotDependOnTheOthers) {
  Case c;
  c.query = 19, c.key = 23, c.mask = Mask::causal(), c.batch = 3;
  const std::vector<Array> arrays = c.inputs(DType::float32);
  const std::vector<Var> x(arrays.begin(), arrays.end());
  const Var whole = c.run(x);
  const Var alone = attention(slice(x[0], 0, 2, 3), slice(x[1], 0, 2, 3), slice(x[2], 0, 2, 3), {},
                              c.options());
  EXPECT_TRUE(bitwise_equal(alone.value(), slice(whole, 0, 2, 3).value()));
}

TEST(Attention, RefusesOperandsThatDoNotFit) {
  const auto zeros = [](const Shape& shape, DType dtype = DType::float32) {
    return Var(Array::zeros(shape, dtype));
  };
  AttentionOptions options;
  options.heads = 2;
  const auto run = [&](const Var& q, const Var& k, const Var& v, const Var& bias = {}) {
    return [&options, q, k, v, bias] { (void)attention(q, k, v, bias, options); };
  };
  expect_throws<ShapeError>(
      run(zeros({2, 3, 4}), zeros({2, 5, 4}), zeros({2, 6, 4})),
      "attention: query [2, 3, 4], key [2, 5, 4] and value [2, 6, 4] do not fit, expected [batch, "
      "query, heads * head_dim], [batch, key, kv_heads * head_dim] and [batch, key, kv_heads * "
      "value_dim]");
  expect_throws<ShapeError>(
      run(zeros({2, 3, 6}), zeros({2, 5, 4}), zeros({2, 5, 4})),
      "attention: query [2, 3, 6], key [2, 5, 4] and value [2, 5, 4] do not split into 2 heads and "
      "2 key heads");
  expect_throws<ShapeError>(
      run(zeros({2, 3, 4}), zeros({2, 5, 4}, DType::float64), zeros({2, 5, 4})),
      "attention: query is float32, key float64, value float32, expected one dtype");
  expect_throws<ShapeError>(run(zeros({2, 3, 4}), zeros({2, 5, 4}), zeros({2, 5, 4}),
                                zeros({1, 2, 5, 3})),
                            "attention: bias [1, 2, 5, 3] does not fit scores [batch 2, heads 2, "
                            "query 3, key 5]");
  options.kv_heads = 3;
  expect_throws<ShapeError>(run(zeros({2, 3, 4}), zeros({2, 5, 4}), zeros({2, 5, 4})),
                            "attention: 2 heads do not share 3 key heads evenly");
}

TEST(Attention, RefusesBadRatesAndScales) {
  const Var x = Array::zeros({1, 2, 3}, DType::float32);
  AttentionOptions options;
  for (const double rate : {-0.1, 1.5, kNan}) {
    options.dropout.rate = rate;
    EXPECT_THROW((void)attention(x, x, x, {}, options), ValueError);
  }
  options.dropout.rate = 0;
  options.softcap = -1;
  expect_throws<ValueError>(
      [&] { (void)attention(x, x, x, {}, options); },
      "attention: scale 0 and softcap -1, expected finite numbers, the softcap not negative");
}

}  // namespace
}  // namespace attune
