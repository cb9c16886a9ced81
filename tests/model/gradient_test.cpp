#include <ostream>
#include <string>
#include <vector>

#include "model/model_test.h"

// Gradients of whole models, with respect to all parameters, against central differences in
// float64.
namespace attune::gradient_test {

struct Case {
  std::string name;
  TransformerConfig config;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// Every switch with every other where they meet in a block; the rest one at a time.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, auto change) {
    Case one{std::move(name), small_config()};
    change(one.config);
    all.push_back(std::move(one));
  };
  const std::vector<std::pair<std::string, NormKind>> norms = {
      {"layernorm", NormKind::layernorm}, {"rmsnorm", NormKind::rmsnorm}, {"none", NormKind::none}};
  for (const auto& [name, norm] : norms) {
    for (const NormPosition position : {NormPosition::pre, NormPosition::post}) {
      for (const bool bias : {true, false}) {
        add(std::string(position == NormPosition::pre ? "pre" : "post") + "_" + name +
                (bias ? "_bias" : ""),
            [&](TransformerConfig& config) {
              config.norm = norm;
              config.norm_position = position;
              config.bias = bias;
              config.tie_head = bias;
            });
      }
    }
  }
  const std::vector<std::pair<std::string, Activation>> activations = {
      {"gelu", Activation::gelu},
      {"gelu_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},
      {"swiglu", Activation::swiglu}};
  for (const auto& [name, activation] : activations) {
    add(name, [&](TransformerConfig& config) { config.activation = activation; });
  }
  add("untied", [](TransformerConfig& config) { config.tie_head = false; });
  add("no_ffn", [](TransformerConfig& config) { config.ffn = false; });
  add("no_residual", [](TransformerConfig& config) { config.residual = false; });
  add("no_mask", [](TransformerConfig& config) { config.mask = "none"; });
  add("widths", [](TransformerConfig& config) { config.head_dim = 5, config.value_dim = 3; });
  add("scale", [](TransformerConfig& config) { config.attention_scale = 1.7; });
  return all;
}

class ModelGradient : public testing::TestWithParam<Case> {};

TEST_P(ModelGradient, MatchesDifferences) {
  Transformer model = random_model(GetParam().config);
  const std::vector<std::int32_t> tokens = random_tokens(2 * 6);
  std::vector<std::int32_t> targets = random_tokens(2 * 6, 2);
  targets[3] = targets[7] = kIgnore;
  expect_parameter_gradients_match(model.parameters(), [&](Tape* tape) {
    Pass pass;
    pass.tape = tape;
    return model.loss({tokens, 2, 6}, targets, pass, 0.1).loss_sum;
  });
}

// Dropout draws the same bits at every evaluation, so the function stays differentiable.
TEST_P(ModelGradient, MatchesDifferencesUnderDropout) {
  TransformerConfig config = GetParam().config;
  config.dropout = 0.3;
  Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(2 * 6), targets = random_tokens(2 * 6, 2);
  expect_parameter_gradients_match(model.parameters(), [&](Tape* tape) {
    Pass pass;
    pass.tape = tape;
    pass.training = true;
    pass.random = {.seed = 8, .step = 1};
    return model.loss({tokens, 2, 6}, targets, pass).loss_sum;
  });
}

INSTANTIATE_TEST_SUITE_P(Configurations, ModelGradient, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace attune::gradient_test
