#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "ops/attention_case.h"

namespace attune::attention_test {

// --- the fused kernel against the textbook composition ---

void expect_fused_equals_textbook(const Case& c, DType dtype, double tolerance) {
  const std::vector<Array> arrays = c.inputs(dtype);
  const std::vector<Var> constants(arrays.begin(), arrays.end());
  std::vector<HeadStatistics> fused(4), textbook(4);
  const std::span heads_fused = std::span(fused).first(static_cast<std::size_t>(c.heads));
  const std::span heads_textbook = std::span(textbook).first(static_cast<std::size_t>(c.heads));
  expect_near(c.run(constants, false, heads_fused).value(),
              c.run(constants, true, heads_textbook).value(), tolerance);
  for (std::size_t h = 0; h < 4; ++h) expect_statistics_near(fused[h], textbook[h], 10 * tolerance);

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

}  // namespace attune::attention_test
