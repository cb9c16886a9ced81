#include "attune/nn/hooks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attune/ops/arithmetic.h"
#include "model/model_test.h"

namespace attune::hooks_test {

// Writes down every call; looks inside attention where asked to; replaces the value at one place.
class Recorder final : public Hooks {
 public:
  explicit Recorder(bool inside) : inside_(inside) {}
  Var at(HookPoint point, int layer, const Var& x) override {
    calls.push_back(std::to_string(layer) + " " + std::string(to_string(point)) + " " +
                    to_string(x.shape()));
    return has_target && point == target ? x * factor : x;
  }
  bool wants_inside_of_attention(int) const override { return inside_; }

  std::vector<std::string> calls;
  bool has_target = false;
  HookPoint target{};
  double factor = 0;

 private:
  bool inside_;
};

TransformerConfig config_of(const std::string& positions = "learned") {
  TransformerConfig config = small_config();
  config.positions = positions;
  config.value_dim = 3;
  return config;
}

std::vector<std::string> expected_calls(bool inside) {
  std::vector<std::string> calls = {"-1 embedding [1, 5, 8]"};
  for (const char* layer : {"0 ", "1 "}) {
    for (const char* call :
         {"residual_pre [1, 5, 8]", "query [1, 5, 8]", "key [1, 5, 8]", "value [1, 5, 6]",
          "scores [1, 2, 5, 5]", "pattern [1, 2, 5, 5]", "head_output [1, 5, 6]",
          "attention_out [1, 5, 8]", "residual_mid [1, 5, 8]", "ffn_hidden [1, 5, 13]",
          "ffn_out [1, 5, 8]", "residual_post [1, 5, 8]"}) {
      const bool is_inside = call[0] == 's' || std::string(call).starts_with("pattern");
      if (inside || !is_inside) calls.push_back(std::string(layer) + call);
    }
  }
  calls.emplace_back("2 final [1, 5, 8]");
  return calls;
}

TEST(Hooks, AreCalledInOrderWithTheDocumentedShapes) {
  const Transformer model = random_model(config_of());
  for (const bool inside : {false, true}) {
    Recorder recorder(inside);
    Pass pass;
    pass.hooks = &recorder;
    static_cast<void>(logits_of(model, random_tokens(5), pass));
    EXPECT_EQ(recorder.calls, expected_calls(inside));
  }
}

TEST(Hooks, KeysAreThoseOfTheCacheToo) {
  const Transformer model = random_model(config_of());
  KvCache cache = model.make_cache(1, 5);
  Pass pass;
  pass.cache = &cache;
  static_cast<void>(logits_of(model, random_tokens(3), pass));
  Recorder recorder(true);
  pass.hooks = &recorder;
  static_cast<void>(logits_of(model, random_tokens(2), pass));
  EXPECT_EQ(recorder.calls.at(2), "0 query [1, 2, 8]");
  EXPECT_EQ(recorder.calls.at(3), "0 key [1, 5, 8]");
  EXPECT_EQ(recorder.calls.at(4), "0 value [1, 5, 6]");
  EXPECT_EQ(recorder.calls.at(5), "0 scores [1, 2, 2, 5]");
}

class HooksOnEncodings : public testing::TestWithParam<std::string> {};

TEST_P(HooksOnEncodings, LookingInsideChangesNothing) {
  const Transformer model = random_model(config_of(GetParam()));
  const std::vector<std::int32_t> tokens = random_tokens(7);
  Recorder recorder(true);
  Pass pass;
  pass.hooks = &recorder;
  expect_near(logits_of(model, tokens, pass), logits_of(model, tokens), 1e-12);
}

TEST_P(HooksOnEncodings, LookingInsideDropsTheSameWeights) {
  TransformerConfig config = config_of(GetParam());
  config.dropout = 0.3;
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(3 * 7);
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 4, .step = 5};
  pass.first_example = 2;
  const Array fused = model.logits({tokens, 3, 7}, pass).value();
  Recorder recorder(true);
  pass.hooks = &recorder;
  expect_near(model.logits({tokens, 3, 7}, pass).value(), fused, 1e-12);
}

TEST_P(HooksOnEncodings, StatisticsAreTheSameFusedAndComposed) {
  const Transformer model = random_model(config_of(GetParam()));
  const std::vector<std::int32_t> tokens = random_tokens(2 * 7);
  AttentionStatistics fused(2, 2), composed(2, 2);
  Pass pass;
  pass.statistics = &fused;
  static_cast<void>(model.logits({tokens, 2, 7}, pass));
  Recorder recorder(true);
  pass.hooks = &recorder;
  pass.statistics = &composed;
  static_cast<void>(model.logits({tokens, 2, 7}, pass));
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const HeadStatistics &a = fused.at(layer, head), &b = composed.at(layer, head);
      EXPECT_EQ(a.rows_valid, 2 * 6);
      EXPECT_EQ(a.rows_single, 2);
      EXPECT_EQ(b.rows_valid, a.rows_valid);
      EXPECT_EQ(b.rows_single, a.rows_single);
      EXPECT_NEAR(b.entropy_sum, a.entropy_sum, 1e-10);
      EXPECT_NEAR(b.log_keys_sum, a.log_keys_sum, 1e-10);
      EXPECT_NEAR(b.normalized_sum, a.normalized_sum, 1e-10);
      EXPECT_NEAR(b.max_probability_sum, a.max_probability_sum, 1e-10);
      EXPECT_NEAR(b.score_sum, a.score_sum, 1e-10);
      EXPECT_NEAR(b.score_max_abs, a.score_max_abs, 1e-10);
      EXPECT_NEAR(b.distance_sum, a.distance_sum, 1e-10);
    }
  }
}

std::vector<std::string> registered() {
  std::vector<std::string> names;
  for (const EncodingInfo& info : list_encodings()) names.push_back(info.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registered, HooksOnEncodings, testing::ValuesIn(registered()));

class HookTarget : public testing::TestWithParam<HookPoint> {};

TEST_P(HookTarget, AReplacedValueChangesTheLogits) {
  TransformerConfig config = config_of();
  if (GetParam() == HookPoint::router) {
    config.attention = "mixture";
    config.experts = 3;
  }
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(5);
  Recorder recorder(true);
  recorder.has_target = true;
  recorder.target = GetParam();
  recorder.factor = 1.5;
  Pass pass;
  pass.hooks = &recorder;
  EXPECT_GT(distance(logits_of(model, tokens, pass), logits_of(model, tokens)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Every, HookTarget,
                         testing::Values(HookPoint::embedding, HookPoint::residual_pre,
                                         HookPoint::query, HookPoint::key, HookPoint::value,
                                         HookPoint::scores, HookPoint::pattern, HookPoint::router,
                                         HookPoint::head_output, HookPoint::attention_out,
                                         HookPoint::residual_mid, HookPoint::ffn_hidden,
                                         HookPoint::ffn_out, HookPoint::residual_post,
                                         HookPoint::final),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Head ablation by hand: what every head mixed becomes 0, so attention adds its output's bias
// alone.
TEST(Hooks, AblatedHeadsLeaveTheOutputBias) {
  TransformerConfig config = config_of();
  config.n_layer = 1;
  config.ffn = false;
  config.norm_position = NormPosition::post;
  config.norm = NormKind::none;
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(4);
  Recorder recorder(false);
  recorder.has_target = true;
  recorder.target = HookPoint::head_output;
  Pass pass;
  pass.hooks = &recorder;
  const Array hidden = model.hidden({tokens, 1, 4}, pass).value();
  const Array& token = model.parameters().find("token_embedding.weight")->value();
  const Array& position = model.parameters().find("position.weight")->value();
  const Array& bias = model.parameters().find("block.0.attention.output.bias")->value();
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t c = 0; c < 8; ++c) {
      EXPECT_NEAR(
          hidden.at({0, t, c}),
          token.at({tokens[static_cast<std::size_t>(t)], c}) + position.at({t, c}) + bias.at({c}),
          1e-14);
    }
  }
}

class Onlooker final : public Hooks {
 public:
  explicit Onlooker(bool replaces) : replaces_(replaces) {}
  bool replaces() const override { return replaces_; }

 private:
  bool replaces_;
};

// Names of the operations of a pass, in their order.
std::vector<std::string> operations(const Transformer& model, Hooks* hooks) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  pass.hooks = hooks;
  static_cast<void>(logits_of(model, random_tokens(5), pass));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tape.size(); ++i) names.emplace_back(tape.record_at(i).op.text);
  return names;
}

TEST(Hooks, ThoseThatOnlyLookLeaveFusedOperationsAsTheyAre) {
  const Transformer model = random_model(config_of());
  Onlooker looks(false), may_replace(true);
  const std::vector<std::string> plain = operations(model, nullptr);
  EXPECT_EQ(std::ranges::count(plain, "add_layer_norm"), 2);
  EXPECT_EQ(operations(model, &looks), plain);
  EXPECT_EQ(std::ranges::count(operations(model, &may_replace), "add_layer_norm"), 0);
}

class WrongShape final : public Hooks {
 public:
  Var at(HookPoint point, int, const Var& x) override {
    return point == HookPoint::ffn_out ? Var(Array::zeros({8}, x.dtype())) : x;
  }
};

TEST(Hooks, AnotherShapeIsRefused) {
  const Transformer model = random_model(config_of());
  WrongShape hooks;
  Pass pass;
  pass.hooks = &hooks;
  expect_throws<ShapeError>(
      [&] { static_cast<void>(logits_of(model, random_tokens(5), pass)); },
      "hook at ffn_out of layer 0: returned float64 [8], expected float64 [1, 5, 8]");
}

}  // namespace attune::hooks_test
