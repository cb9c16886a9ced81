#include "attune/model/block.h"

#include "attune/ops/attention.h"
#include "attune/ops/matmul.h"
#include "attune/ops/norm.h"
#include "attune/ops/unary.h"
#include "model/model_test.h"

// A block against its formula, composed here from ops and the block's parameters.
namespace attune::block_test {

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

// Gradients of all parameters, one after another, behind the loss.
std::vector<double> loss_and_gradients(const Transformer& model, Hooks* hooks) {
  const std::vector<std::int32_t> tokens = random_tokens(2 * 5), targets = random_tokens(2 * 5, 2);
  Tape tape;
  Pass pass = training_pass();
  pass.tape = &tape;
  pass.hooks = hooks;
  const CrossEntropy loss = model.loss({tokens, 2, 5}, targets, pass);
  std::vector<double> all = {loss.nats};
  const Gradients gradients = tape.backward(loss.loss_sum);
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<double> values = gradients[parameter].to_vector();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

struct BlockForm {
  const char* name;
  NormKind norm;
  NormPosition position;
  bool residual;
  double dropout;
};

class BlockFusion : public testing::TestWithParam<BlockForm> {};

// With hooks a block adds and normalises in two operations, without in one.
TEST_P(BlockFusion, ChangesNoBitOfLossAndGradients) {
  TransformerConfig config = small_config();
  config.norm = GetParam().norm;
  config.norm_position = GetParam().position;
  config.residual = GetParam().residual;
  config.dropout = GetParam().dropout;
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Transformer model = random_model(config, dtype);
    Hooks hooks;
    EXPECT_EQ(loss_and_gradients(model, nullptr), loss_and_gradients(model, &hooks));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, BlockFusion,
    testing::Values(BlockForm{"Pre", NormKind::layernorm, NormPosition::pre, true, 0},
                    BlockForm{"PreRms", NormKind::rmsnorm, NormPosition::pre, true, 0},
                    BlockForm{"PreNone", NormKind::none, NormPosition::pre, true, 0},
                    BlockForm{"PreDropout", NormKind::layernorm, NormPosition::pre, true, 0.3},
                    BlockForm{"PreNoResidual", NormKind::layernorm, NormPosition::pre, false, 0},
                    BlockForm{"Post", NormKind::layernorm, NormPosition::post, true, 0},
                    BlockForm{"PostRms", NormKind::rmsnorm, NormPosition::post, true, 0.3},
                    BlockForm{"PostNoResidual", NormKind::layernorm, NormPosition::post, false, 0}),
    [](const auto& info) { return std::string(info.param.name); });

std::vector<std::string> operations_of(const TransformerConfig& config) {
  const std::vector<std::int32_t> tokens = random_tokens(5);
  const Transformer model = random_model(config);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  (void)model.hidden({tokens, 1, 5}, pass);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tape.size(); ++i) names.emplace_back(tape.record_at(i).op.text);
  return names;
}

TEST(Block, LeavesNoPassBetweenAdditionAndNormOrProductAndActivation) {
  TransformerConfig config = small_config();
  config.n_layer = 1;
  config.positions = "none";
  using Names = std::vector<std::string>;
  EXPECT_EQ(operations_of(config),
            (Names{"embedding", "layer_norm", "linear", "linear", "linear", "attention", "linear",
                   "add_layer_norm", "linear_gelu", "linear", "add", "layer_norm"}));
  config.norm_position = NormPosition::post;
  config.norm = NormKind::rmsnorm;
  config.activation = Activation::swiglu;
  EXPECT_EQ(operations_of(config),
            (Names{"embedding", "linear", "linear", "linear", "attention", "linear", "add_rms_norm",
                   "linear", "linear", "swiglu", "linear", "add_rms_norm"}));
}

}  // namespace attune::block_test
