#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "ops/attention_case.h"

namespace attune::attention_statistics_test {

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
  // Uniform weights over 50 keys of value 1: a row is 2/50 times the number of kept keys, of which
  // 50 are binomial with p = 1/2. Over 2000 rows the mean of O is 1 +- 3 sqrt(1/50/2000).
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
  const Var shard =
      attention(slice(x[0], 0, 3, 5), slice(x[1], 0, 3, 5), slice(x[2], 0, 3, 5), {}, options);
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

TEST(Attention, EntropyOfOneHotRowsIsZero) {  // B25
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
  const Var alone =
      attention(slice(x[0], 0, 2, 3), slice(x[1], 0, 2, 3), slice(x[2], 0, 2, 3), {}, c.options());
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
  expect_throws<ShapeError>(
      run(zeros({2, 3, 4}), zeros({2, 5, 4}), zeros({2, 5, 4}), zeros({1, 2, 5, 3})),
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

}  // namespace attune::attention_statistics_test
