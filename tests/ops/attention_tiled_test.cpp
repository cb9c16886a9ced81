#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/shaping.h"
#include "ops/attention_case.h"

// The tiled form where it has several blocks of keys (256 each). Small cases are in
// attention_test.cpp, in both forms.
namespace attune::attention_tiled_test {

std::vector<Case> long_cases() {
  std::vector<Case> all;
  const auto add = [&](auto change) {
    Case c;
    c.batch = 1, c.heads = c.kv_heads = 2, c.query = 83, c.key = 530;
    c.form = AttentionForm::tiled;
    change(c);
    all.push_back(c);
  };
  add([](Case&) {});
  add([](Case& c) { c.mask = Mask::causal(), c.query = c.key; });
  add([](Case& c) { c.mask = Mask::causal() & Mask::window(270), c.query = c.key = 700; });
  add([](Case& c) { c.mask = Mask::causal(), c.query = 600, c.key = 300; });
  add([](Case& c) { c.mask = random_mask(c, 2, 21), c.bias = true; });
  add([](Case& c) { c.mask = Mask::causal() & random_mask(c, 1, 22), c.dropout = 0.3; });
  add([](Case& c) { c.kv_heads = 1, c.softcap = 1.5, c.dropout = 0.2, c.mask = Mask::causal(); });
  add([](Case& c) { c.distance_bias = true, c.query = c.key, c.mask = Mask::causal(); });
  add([](Case& c) { c.batch = 2, c.bias = c.bias_per_example = true, c.key = 512; });
  return all;
}

void expect_equals_textbook(const Case& c, DType dtype, const std::vector<Array>& arrays,
                            double tolerance) {
  const std::vector<Var> constants(arrays.begin(), arrays.end());
  std::vector<HeadStatistics> tiled(2), textbook(2);
  expect_near(c.run(constants, false, tiled).value(), c.run(constants, true, textbook).value(),
              tolerance);
  for (std::size_t h = 0; h < 2; ++h) expect_statistics_near(tiled[h], textbook[h], 50 * tolerance);
  const Array seed = random_array({c.batch, c.query, c.heads * c.value_dim}, 77, dtype);
  const std::vector<Array> got = gradients_of(c.function(), arrays, seed);
  const std::vector<Array> expected = gradients_of(c.function(true), arrays, seed);
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    expect_near(got[i], expected[i], 10 * tolerance);
  }
}

TEST(TiledAttention, EqualsTextbookOverSeveralBlocks) {
  std::size_t index = 0;
  for (const Case& c : long_cases()) {
    SCOPED_TRACE("case " + std::to_string(index++));
    expect_equals_textbook(c, DType::float64, c.inputs(DType::float64), 1e-12);
    expect_equals_textbook(c, DType::float32, c.inputs(DType::float32), 1e-5);
  }
}

// Scores that rise from block to block, so that every block brings a new maximum, by far; then ones
// that fall.
TEST(TiledAttention, EqualsTextbookWhereTheMaximumMoves) {
  for (const double direction : {1.0, -1.0}) {
    Case c;
    c.batch = 1, c.heads = c.kv_heads = 2, c.query = 20, c.key = 900, c.head_dim = 1;
    c.scale = 1, c.form = AttentionForm::tiled;
    std::vector<Array> arrays = c.inputs(DType::float64);
    std::vector<double> keys;
    for (std::int64_t j = 0; j < c.key; ++j)
      for (int h = 0; h < 2; ++h) keys.push_back(direction * 0.2 * static_cast<double>(j));
    arrays[1] = Array::from({1, c.key, 2}, keys, DType::float64);
    expect_equals_textbook(c, DType::float64, arrays, 1e-11);
  }
}

// Where m + ln Z has no digits left for ln Z.
TEST(TiledAttention, EqualsTextbookForLargeScores) {
  Case c;
  c.batch = 1, c.heads = c.kv_heads = 2, c.query = 20, c.key = 300, c.head_dim = 1;
  c.scale = 1, c.form = AttentionForm::tiled, c.mask = Mask::causal();
  std::vector<Array> arrays = c.inputs(DType::float32);
  arrays[0] = Array::full(arrays[0].shape(), 1e4, DType::float32);
  arrays[1] = Array::full(arrays[1].shape(), 1, DType::float32);
  const Array seed = random_array({c.batch, c.query, c.heads * c.value_dim}, 77, DType::float32);
  const std::vector<Array> got = gradients_of(c.function(), arrays, seed);
  const std::vector<Array> expected = gradients_of(c.function(true), arrays, seed);
  expect_near(got[2], expected[2], 1e-6);
}

TEST(TiledAttention, RowsComputedInChunksAreBitwiseThoseOfOnePass) {  // B05
  const Mask causal = Mask::causal();
  AttentionOptions options;
  options.heads = 2;
  options.mask = &causal;
  options.form = AttentionForm::tiled;
  const Var x = random_array({1, 600, 10}, 1, DType::float32);
  const Var whole = attention(x, x, x, {}, options);
  for (const std::int64_t chunk : {1, 37, 256}) {
    for (const std::int64_t begin : {0, 200, 255, 256, 511, 512, 590}) {
      const std::int64_t end = std::min<std::int64_t>(begin + chunk, 600);
      const Var prefix = slice(x, 1, 0, end);
      const Var part = attention(slice(x, 1, begin, end), prefix, prefix, {}, options);
      EXPECT_TRUE(bitwise_equal(part.value(), slice(whole, 1, begin, end).value()))
          << begin << " to " << end;
    }
  }
}

TEST(TiledAttention, IsTakenBeyond1024Keys) {
  for (const std::int64_t key : {1024, 1025}) {
    Case c;
    c.batch = 1, c.query = 3, c.key = key;
    const std::vector<Array> arrays = c.inputs(DType::float32);
    const auto run = [&](AttentionForm form) {
      c.form = form;
      return c.run(std::vector<Var>(arrays.begin(), arrays.end())).value();
    };
    const Array automatic = run(AttentionForm::automatic);
    EXPECT_EQ(bitwise_equal(automatic, run(AttentionForm::stored)), key == 1024);
    EXPECT_EQ(bitwise_equal(automatic, run(AttentionForm::tiled)), key == 1025);
  }
}

std::int64_t peak_bytes_of_a_step(std::int64_t length, AttentionForm form) {
  const Mask causal = Mask::causal();
  AttentionOptions options;
  options.mask = &causal;
  options.form = form;
  const Array x = random_array({1, length, 16}, 1, DType::float32);
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  buffer_pool::reset_peak();
  {
    Tape tape;
    const Var leaf = tape.leaf(x);
    const Var y = attention(leaf, leaf, leaf, {}, options);
    const Gradients gradients = tape.backward(y, Array::full(y.shape(), 1, y.dtype()));
  }
  return buffer_pool::statistics().peak_bytes - before;
}

TEST(TiledAttention, MemoryGrowsWithTheLengthNotItsSquare) {
  const std::int64_t at_1024 = peak_bytes_of_a_step(1024, AttentionForm::tiled);
  const std::int64_t at_2048 = peak_bytes_of_a_step(2048, AttentionForm::tiled);
  EXPECT_LE(static_cast<double>(at_2048), 2.2 * static_cast<double>(at_1024));
  const std::int64_t stored = peak_bytes_of_a_step(2048, AttentionForm::stored);
  EXPECT_GE(stored, std::int64_t{2048} * 2048 * 4);
  EXPECT_LE(at_2048, stored / 4);
}

TEST(TiledAttention, SizesZeroGiveEmptyOrZeroResults) {
  for (const auto& [batch, query, key] :
       {std::array<std::int64_t, 3>{0, 3, 3}, {2, 0, 3}, {2, 3, 0}, {0, 0, 0}}) {
    Case c;
    c.batch = batch, c.query = query, c.key = key, c.mask = Mask::causal();
    c.form = AttentionForm::tiled;
    const std::vector<Array> arrays = c.inputs(DType::float32);
    const Var y = c.run(std::vector<Var>(arrays.begin(), arrays.end()));
    for (const double value : y.value().to_vector()) EXPECT_EQ(value, 0);
    for (const Array& gradient : gradients_of(c.function(), arrays))
      for (const double value : gradient.to_vector()) EXPECT_EQ(value, 0);
  }
}

}  // namespace attune::attention_tiled_test
