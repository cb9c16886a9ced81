#include "ops/attention_case.h"

// What the sparse form has beyond the suites that all forms go through (attention_test.cpp).
namespace attune::attention_sparse_test {

Case long_case(const Mask& mask) {
  Case c;
  c.batch = 1, c.heads = c.kv_heads = 2, c.query = c.key = 200, c.mask = mask;
  return c;
}

std::vector<Mask> patterns() {
  return {Mask::sparse({.window = 4, .dilation = 3}),
          Mask::sparse({.window = 3, .globals = 2}) & Mask::causal(),
          Mask::sparse({.window = 3, .globals = 1, .random = 1, .block = 8}) & Mask::causal(),
          Mask::documents(1, [] {
            std::vector<std::int32_t> document(200);
            for (std::size_t i = 0; i < 200; ++i) document[i] = static_cast<std::int32_t>(i / 9);
            return document;
          }())};
}

TEST(SparseAttention, EqualsTextbookUnderEveryPattern) {
  for (const Mask& mask : patterns()) {
    Case c = long_case(mask);
    c.form = AttentionForm::sparse;
    const std::vector<Array> inputs = c.inputs(DType::float64);
    const std::vector<Var> x(inputs.begin(), inputs.end());
    expect_near(c.run(x).value(), c.run(x, true).value(), 1e-12);
    const std::vector<Array> ours = gradients_of(c.function(), inputs);
    const std::vector<Array> textbook = gradients_of(c.function(true), inputs);
    for (std::size_t i = 0; i < ours.size(); ++i) expect_near(ours[i], textbook[i], 1e-11);
  }
}

// The choice depends on the share of pairs that are kept.
TEST(SparseAttention, IsTakenWhereTheMaskKeepsOnePairInSixteen) {
  const auto form_of = [](const Mask& mask) {
    Case c = long_case(mask);
    const std::vector<Array> inputs = c.inputs(DType::float32);
    const std::vector<Var> x(inputs.begin(), inputs.end());
    const Array automatic = c.run(x).value();
    c.form = AttentionForm::sparse;
    const bool sparse = bitwise_equal(automatic, c.run(x).value());
    c.form = AttentionForm::stored;
    const bool stored = bitwise_equal(automatic, c.run(x).value());
    return sparse && !stored ? "sparse" : stored && !sparse ? "stored" : "either";
  };
  EXPECT_STREQ(form_of(Mask::sparse({.window = 4, .dilation = 3})), "sparse");   // 7 in 200
  EXPECT_STREQ(form_of(Mask::sparse({.window = 10, .dilation = 2})), "stored");  // 19 in 200
  EXPECT_STREQ(form_of(Mask::causal() & Mask::window(3)),
               "stored");  // tiles skip what a band drops
}

// Arrays of a step are in proportion to the pairs: twice the keys, twice the memory.
TEST(SparseAttention, MemoryGrowsWithThePairs) {
  const auto peak_of = [](std::int64_t length) {
    Case c = long_case(Mask::sparse({.window = 4, .dilation = 2}));
    c.query = c.key = length;
    const std::vector<Array> inputs = c.inputs(DType::float32);
    buffer_pool::reset_peak();
    const std::int64_t before = buffer_pool::statistics().live_bytes;
    static_cast<void>(gradients_of(c.function(), inputs));
    return buffer_pool::statistics().peak_bytes - before;
  };
  const auto at_500 = static_cast<double>(peak_of(500));
  EXPECT_LE(static_cast<double>(peak_of(1000)) / at_500, 2.2);
}

TEST(SparseAttention, RowsWithoutAKeyAreZeroWithZeroGradient) {
  Case c;
  c.form = AttentionForm::sparse;
  c.mask = Mask::causal();
  c.query = 7, c.key = 5;
  const std::vector<Array> inputs = c.inputs(DType::float64);
  const Array y = c.run(std::vector<Var>(inputs.begin(), inputs.end())).value();
  const std::vector<Array> gradients = gradients_of(c.function(), inputs);
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t k = 0; k < c.heads * c.value_dim; ++k) {
        EXPECT_EQ(y.at({b, i, k}), 0);
        EXPECT_EQ(gradients[0].at({b, i, k}), 0);
      }
}

}  // namespace attune::attention_sparse_test
