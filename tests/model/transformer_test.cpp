#include "attune/model/transformer.h"

#include <cmath>
#include <string>

#include "model/model_test.h"

namespace attune::transformer_test {

TEST(Transformer, NamesItsParametersInTheOrderOfTheForwardPass) {
  TransformerConfig config = small_config();
  config.n_layer = 1;
  config.tie_head = false;
  const Transformer model(config, 1);
  EXPECT_EQ(names_of(model.parameters()),
            (std::vector<std::string>{"token_embedding.weight",
                                      "position.weight",
                                      "block.0.norm_1.gain",
                                      "block.0.norm_1.shift",
                                      "block.0.attention.query.weight",
                                      "block.0.attention.query.bias",
                                      "block.0.attention.key.weight",
                                      "block.0.attention.key.bias",
                                      "block.0.attention.value.weight",
                                      "block.0.attention.value.bias",
                                      "block.0.attention.output.weight",
                                      "block.0.attention.output.bias",
                                      "block.0.norm_2.gain",
                                      "block.0.norm_2.shift",
                                      "block.0.ffn.up.weight",
                                      "block.0.ffn.up.bias",
                                      "block.0.ffn.down.weight",
                                      "block.0.ffn.down.bias",
                                      "final_norm.gain",
                                      "final_norm.shift",
                                      "head.weight"}));
}

// Policy 13: weights of linear maps and embeddings decay, nothing else.
TEST(Transformer, WeightsAndEmbeddingsDecayAndNothingElse) {  // B33
  for (const char* positions : {"learned", "t5"}) {
    TransformerConfig config = small_config();
    config.positions = positions;
    config.tie_head = false;
    const Transformer model(config, 1);
    for (const Parameter& parameter : model.parameters()) {
      const bool is_bias_table = parameter.name() == "position.weight" && config.positions == "t5";
      EXPECT_EQ(parameter.options().decays, parameter.name().ends_with(".weight") && !is_bias_table)
          << parameter.name();
    }
  }
}

// Counted by hand: 65*128 + 64*128 + 4 (12*128^2 + 2*128) + 128.
TEST(Transformer, CountsTheParametersOfTheDefaultTextModel) {
  TransformerConfig config;
  EXPECT_EQ(Transformer(config, 1).parameters().elements(), 804096);
  config.tie_head = false;
  EXPECT_EQ(Transformer(config, 1).parameters().elements(), 804096 + 65 * 128);
}

// The published TinyGPT adder: vocabulary 12, 4 layers of 4 heads, width 64, tied, biases in linear
// maps and norms; 200,832 without its position table.
TEST(Transformer, CountsTheParametersOfTheTinyGptAdder) {
  TransformerConfig config;
  config.vocabulary = 12;
  config.n_embd = 64;
  config.bias = true;
  const Transformer model(config, 1);
  EXPECT_EQ(
      model.parameters().elements() - model.parameters().find("position.weight")->shape().size(),
      200832);
}

TEST(Transformer, SameSeedSameModelInBothTypes) {
  const Transformer one(small_config(), 5), same(small_config(), 5), other(small_config(), 6);
  EXPECT_EQ(one.parameters().hash(), same.parameters().hash());
  EXPECT_NE(one.parameters().hash(), other.parameters().hash());
  const Transformer wide(small_config(), 5, DType::float64);
  for (const Parameter& parameter : one.parameters()) {
    expect_near(wide.parameters().find(parameter.name())->value().cast(DType::float32),
                parameter.value(), 0);
  }
}

TEST(Transformer, Gpt2ScalesWhatWritesIntoTheResidualStream) {
  TransformerConfig config;
  const Transformer model(config, 1);
  const auto deviation = [&](const std::string& name) {
    double square = 0;
    const std::vector<double> values = model.parameters().find(name)->value().to_vector();
    for (const double value : values) square += value * value;
    return std::sqrt(square / static_cast<double>(values.size()));
  };
  const double scaled = 0.02 / std::sqrt(8.0);  // 2 branches in each of 4 layers
  for (const char* name : {"block.0.attention.output.weight", "block.3.ffn.down.weight"}) {
    EXPECT_NEAR(deviation(name), scaled, 0.03 * scaled) << name;
  }
  for (const char* name : {"block.0.attention.query.weight", "block.0.ffn.up.weight",
                           "token_embedding.weight", "position.weight"}) {
    EXPECT_NEAR(deviation(name), 0.02, 0.03 * 0.02) << name;
  }
}

TEST(Transformer, StartsAtTheLossOfAGuess) {
  for (const bool tied : {true, false}) {
    TransformerConfig config;
    config.tie_head = tied;
    const Transformer model(config, 3);
    const std::vector<std::int32_t> tokens = random_tokens(4 * 64, 1, 65);
    const std::vector<std::int32_t> targets = random_tokens(4 * 64, 2, 65);
    const CrossEntropy loss = model.loss({tokens, 4, 64}, targets, {});
    EXPECT_NEAR(loss.nats / static_cast<double>(loss.scored), std::log(65.0), 0.1);
  }
}

// The tied table's gradient is what an untied model with equal tables gives both of its own.
TEST(Transformer, TiedGradientIsTheSumOfBothUses) {  // B38
  TransformerConfig config = small_config();
  Transformer tied = random_model(config);
  config.tie_head = false;
  Transformer untied(config, 1, DType::float64);
  for (const Parameter& parameter : tied.parameters()) {
    untied.parameters().find(parameter.name())->set_value(parameter.value());
  }
  const Parameter& table = *tied.parameters().find("token_embedding.weight");
  untied.parameters().find("head.weight")->set_value(table.value());

  const std::vector<std::int32_t> tokens = random_tokens(2 * 6), targets = random_tokens(2 * 6, 2);
  Tape one, other;
  Pass pass;
  pass.tape = &one;
  const Array sum = one.backward(tied.loss({tokens, 2, 6}, targets, pass).loss_sum)[table];
  pass.tape = &other;
  const Gradients apart = other.backward(untied.loss({tokens, 2, 6}, targets, pass).loss_sum);
  std::vector<double> expected =
      apart[*untied.parameters().find("token_embedding.weight")].to_vector();
  const std::vector<double> head = apart[*untied.parameters().find("head.weight")].to_vector();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += head[i];
  expect_near(sum, expected, 1e-12);
}

// ln sum e^logits - the target's logit, over all logits, in a plain loop.
TEST(Transformer, LossAtScoredPositionsIsTheMaskedSumOverAllLogits) {
  const Transformer model = random_model(small_config());
  const std::vector<std::int32_t> tokens = random_tokens(3 * 5);
  std::vector<std::int32_t> targets = random_tokens(3 * 5, 2);
  for (const std::size_t ignored : {0u, 3u, 4u, 9u, 10u, 14u}) targets[ignored] = kIgnore;
  const Array logits = model.logits({tokens, 3, 5}, {}).value();
  double sum = 0;
  std::vector<std::uint8_t> hits;
  for (std::int64_t row = 0; row < 15; ++row) {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target == kIgnore) continue;
    double partition = 0;
    std::int64_t best = 0;
    for (std::int64_t v = 0; v < 11; ++v) {
      partition += std::exp(logits.at({row / 5, row % 5, v}));
      if (logits.at({row / 5, row % 5, v}) > logits.at({row / 5, row % 5, best})) best = v;
    }
    sum += std::log(partition) - logits.at({row / 5, row % 5, target});
    hits.push_back(best == target ? 1 : 0);
  }
  std::vector<std::uint8_t> row_correct(9);
  const CrossEntropy loss = model.loss({tokens, 3, 5}, targets, {}, 0, row_correct);
  EXPECT_NEAR(loss.nats, sum, 1e-11);
  EXPECT_NEAR(loss.loss_sum.value().item(), sum, 1e-11);
  EXPECT_EQ(loss.scored, 9);
  EXPECT_EQ(row_correct, hits);
}

// Policy 9
TEST(Transformer, NothingScoredIsALossOfZeroWithGradientZero) {  // B20
  const Transformer model = random_model(small_config());
  const std::vector<std::int32_t> tokens = random_tokens(4), targets(4, kIgnore);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const CrossEntropy loss = model.loss({tokens, 1, 4}, targets, pass);
  EXPECT_EQ(loss.nats, 0);
  EXPECT_EQ(loss.scored, 0);
  EXPECT_EQ(tape.backward(loss.loss_sum).global_norm(), 0);
}

TEST(Transformer, TargetsForOtherTokensAreRefused) {
  const Transformer model(small_config(), 1);
  const std::vector<std::int32_t> tokens = random_tokens(4), targets = random_tokens(3);
  expect_throws<ShapeError>(
      [&] {
        static_cast<void>(model.loss({tokens, 1, 4}, targets, {}));
      },
      "transformer: 3 targets for 4 tokens");
}

TEST(Transformer, LogitsDoNotDependOnLaterTokens) {  // B06
  const Transformer model = random_model(small_config(), DType::float32);
  std::vector<std::int32_t> tokens = random_tokens(6);
  const Array before = logits_of(model, tokens);
  tokens[4] = (tokens[4] + 1) % 11;
  const Array after = logits_of(model, tokens);
  EXPECT_EQ(columns_of(before, 0, 4).to_vector(), columns_of(after, 0, 4).to_vector());
  EXPECT_GT(distance(columns_of(before, 4, 5), columns_of(after, 4, 5)), 0);
  EXPECT_GT(distance(columns_of(before, 5, 6), columns_of(after, 5, 6)), 0);
}

TEST(Transformer, EvaluationIsBitwiseDeterministicAndIgnoresDropout) {  // B09
  TransformerConfig config = small_config();
  const Transformer plain = random_model(config);
  config.dropout = 0.5;
  const Transformer dropping = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(6);
  Pass pass;
  pass.random = {.seed = 3, .step = 4};
  EXPECT_EQ(logits_of(dropping, tokens, pass).to_vector(), logits_of(plain, tokens).to_vector());
}

TEST(Transformer, ATapeChangesNoValue) {
  const Transformer model = random_model(small_config(), DType::float32);
  const std::vector<std::int32_t> tokens = random_tokens(6);
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  EXPECT_EQ(logits_of(model, tokens, pass).to_vector(), logits_of(model, tokens).to_vector());
}

// Two shards against the whole batch, dropout at every site; sums of a product may be taken in
// another order for another number of rows.
TEST(Transformer, ShardsDropWhatTheWholeBatchDrops) {
  TransformerConfig config = small_config();
  config.dropout = 0.3;
  const Transformer model = random_model(config);
  const std::vector<std::int32_t> tokens = random_tokens(5 * 7);
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 3, .step = 4};
  const Array whole = model.logits({tokens, 5, 7}, pass).value();
  const std::span<const std::int32_t> all = tokens;
  const Array first = model.logits({all.first(2 * 7), 2, 7}, pass).value();
  pass.first_example = 2;
  const Array second = model.logits({all.subspan(2 * 7), 3, 7}, pass).value();
  expect_near(first, rows_of(whole, 0, 2), 1e-12);
  expect_near(second, rows_of(whole, 2, 5), 1e-12);
}

// Rate 1 on attention weights against rate 1 on outputs: two switches.
TEST(Transformer, AttentionAndResidualDropoutAreApart) {
  const std::vector<std::int32_t> tokens = random_tokens(6);
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 3, .step = 4};
  std::vector<std::vector<double>> seen;
  for (const auto& [residual, attention] :
       {std::pair{0.0, 0.0}, std::pair{0.5, 0.0}, std::pair{0.0, 0.5}, std::pair{0.5, 0.5}}) {
    TransformerConfig config = small_config();
    config.dropout = residual;
    config.attention_dropout = attention;
    seen.push_back(logits_of(random_model(config), tokens, pass).to_vector());
    for (std::size_t i = 0; i + 1 < seen.size(); ++i) EXPECT_NE(seen[i], seen.back());
  }
}

TEST(Transformer, Float32AgreesWithFloat64) {
  const Transformer narrow(TransformerConfig{}, 3), wide(TransformerConfig{}, 3, DType::float64);
  const std::vector<std::int32_t> tokens = random_tokens(64, 1, 65);
  expect_near(logits_of(narrow, tokens), logits_of(wide, tokens).to_vector(), 1e-4);
}

TEST(Transformer, ACacheOfAnotherBatchIsRefused) {
  const Transformer model(small_config(), 1);
  KvCache cache = model.make_cache(2, 8);
  Pass pass;
  pass.cache = &cache;
  expect_throws<ShapeError>([&] { static_cast<void>(logits_of(model, random_tokens(3), pass)); },
                            "KV-cache: keys are float32 [1, 3, 8], expected float32 [2, 3, 8]");
}

TEST(Transformer, GivesItsMemoryBack) {
  const Transformer model = random_model(small_config());
  const std::vector<std::int32_t> tokens = random_tokens(2 * 6), targets = random_tokens(2 * 6, 2);
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  {
    Tape tape;
    Pass pass;
    pass.tape = &tape;
    static_cast<void>(tape.backward(model.loss({tokens, 2, 6}, targets, pass).loss_sum));
  }
  EXPECT_EQ(buffer_pool::statistics().live_bytes, before);
}

TEST(Transformer, CanBeMoved) {
  Transformer model = random_model(small_config());
  const std::vector<std::int32_t> tokens = random_tokens(5);
  const Array before = logits_of(model, tokens);
  const Transformer moved = std::move(model);
  EXPECT_EQ(logits_of(moved, tokens).to_vector(), before.to_vector());
}

TEST(Transformer, HeadsThatDoNotDivideTheWidthAreRefused) {
  TransformerConfig config = small_config();
  config.n_head = 3;
  expect_throws<ConfigError>([&] { Transformer(config, 1); },
                             "--n-head 3 does not divide --n-embd 8");
}

}  // namespace attune::transformer_test
