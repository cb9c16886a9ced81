#include "attune/model/block.h"

#include "attune/ops/attention.h"
#include "attune/ops/matmul.h"
#include "attune/ops/norm.h"
#include "attune/ops/unary.h"
#include "model/model_test.h"

// A block against its formula, composed here from ops and the block's parameters.
namespace attune {
namespace {

class BlockTest : public testing::Test {
 protected:
  [[nodiscard]] Array run(const TransformerConfig& config, const Pass& pass = {}) {
    encoding_ = make_positional_encoding("none", bench_.root / "position", {}, bench_.init);
    const Block block(bench_.root / "block", config.resolved(), *encoding_, bench_.init, 0);
    randomize(bench_.store);
    return block(Var(x_), {}, pass).value();
  }
  [[nodiscard]] Var parameter(const std::string& name) {
    return Var(bench_.value("block." + name));
  }
  [[nodiscard]] Var map(const std::string& name, const Var& x) {
    return linear(x, parameter(name + ".weight"), parameter(name + ".bias"));
  }
  [[nodiscard]] Var norm(const std::string& name, const Var& x) {
    return layer_norm(x, parameter(name + ".gain"), parameter(name + ".shift"));
  }
  [[nodiscard]] Var attend(const Var& x) {
    const Mask mask = Mask::causal();
    AttentionOptions options;
    options.heads = 2;
    options.mask = &mask;
    return map("attention.output", attention(map("attention.query", x), map("attention.key", x),
                                             map("attention.value", x), {}, options));
  }
  [[nodiscard]] Var feed(const Var& x) { return map("ffn.down", gelu(map("ffn.up", x))); }

  Bench bench_;
  std::unique_ptr<PositionalEncoding> encoding_;
  Array x_ = random_array({2, 5, 8}, 1);
};

Var plus(const Var& a, const Var& b) {
  std::vector<double> sum = a.value().to_vector();
  const std::vector<double> other = b.value().to_vector();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return Var(Array::from(a.shape(), sum, a.dtype()));
}

TEST_F(BlockTest, PreNormNormalisesWhatEntersABranch) {
  const Array y = run(small_config());
  const Var middle = plus(x_, attend(norm("norm_1", x_)));
  expect_near(y, plus(middle, feed(norm("norm_2", middle))).value(), 1e-12);
}

TEST_F(BlockTest, PostNormNormalisesTheSum) {
  TransformerConfig config = small_config();
  config.norm_position = NormPosition::post;
  const Array y = run(config);
  const Var middle = norm("norm_1", plus(x_, attend(x_)));
  expect_near(y, norm("norm_2", plus(middle, feed(middle))).value(), 1e-12);
}

TEST_F(BlockTest, WithoutResidualTheBranchStandsAlone) {
  TransformerConfig config = small_config();
  config.residual = false;
  const Array y = run(config);
  expect_near(y, feed(norm("norm_2", attend(norm("norm_1", x_)))).value(), 1e-12);
}

TEST_F(BlockTest, WithoutFeedForwardOnlyAttentionIsLeft) {
  TransformerConfig config = small_config();
  config.ffn = false;
  const Array y = run(config);
  expect_near(y, plus(x_, attend(norm("norm_1", x_))).value(), 1e-12);
  EXPECT_EQ(bench_.store.find("block.norm_2.gain"), nullptr);
  EXPECT_EQ(bench_.store.find("block.ffn.up.weight"), nullptr);
}

TEST_F(BlockTest, WithoutNormsBranchesReadTheStream) {
  TransformerConfig config = small_config();
  config.norm = NormKind::none;
  const Array y = run(config);
  const Var middle = plus(x_, attend(x_));
  expect_near(y, plus(middle, feed(middle)).value(), 1e-12);
}

Pass training_pass(std::int64_t first_example = 0) {
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 3, .step = 9};
  pass.first_example = first_example;
  return pass;
}

// Rate 1 silences what it is set on: which outputs it reaches tells the two switches apart.
TEST_F(BlockTest, ResidualDropoutOfOneLeavesTheStreamAlone) {
  TransformerConfig config = small_config();
  config.dropout = 1;
  config.attention_dropout = 0;
  expect_near(run(config, training_pass()), x_, 0);
}

TEST_F(BlockTest, AttentionDropoutOfOneLeavesTheOutputBias) {
  TransformerConfig config = small_config();
  config.attention_dropout = 1;
  config.ffn = false;
  const Array y = run(config, training_pass());
  expect_near(
      y,
      plus(x_, linear(Var(Array::zeros({2, 5, 8}, DType::float64)),
                      parameter("attention.output.weight"), parameter("attention.output.bias")))
          .value(),
      1e-15);
}

}  // namespace
}  // namespace attune
