#include <cmath>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/observe/batch_gradient.h"
#include "attune/observe/distinct_tokens.h"
#include "attune/observe/sharpness.h"
#include "attune/observe/short_training.h"
#include "attune/observe/study_distance.h"
#include "attune/observe/study_init.h"
#include "attune/observe/study_noise.h"
#include "attune/observe/study_rank.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/reduce.h"
#include "attune/ops/unary.h"
#include "attune/train/trainer.h"

namespace attune::study_model_test {

TransformerConfig small_config() {
  TransformerConfig config;
  config.vocabulary = 71;
  config.block_size = 64;
  config.n_layer = 2;
  config.n_head = 4;
  config.n_embd = 64;
  config.init = "xavier";
  config.positions = "none";
  config.init_std = 0.5;
  config.tie_head = false;
  return config;
}

Batch batch_of(const TransformerConfig& config, std::int64_t examples, std::int64_t time) {
  const auto task = distinct_tokens(config.vocabulary, time);
  return BatchSource(*task, 5, 0).train(0, 0, examples, examples);
}

TEST(DistinctTokens, AreDistinctInEveryExample) {
  const auto task = distinct_tokens(11, 11);
  const Batch batch = BatchSource(*task, 5, 0).train(0, 0, 3, 3);
  for (std::size_t b = 0; b < 3; ++b) {
    std::vector<std::int32_t> tokens(
        batch.tokens.begin() + static_cast<std::ptrdiff_t>(b * 11),
        batch.tokens.begin() + static_cast<std::ptrdiff_t>(b * 11 + 11));
    std::ranges::sort(tokens);
    for (std::int32_t i = 0; i < 11; ++i) EXPECT_EQ(tokens[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(distinct_tokens(3, 7)->vocabulary(), 7);
}

// The law of the entropy at initialisation, masked and not.
TEST(StudyInit, EntropyIsWithinAHundredthOfTheGaussianPrediction) {
  for (const char* mask : {"none", "causal"}) {
    for (const double factor : {0.5, 1.0, 2.0}) {
      TransformerConfig config = small_config();
      config.mask = mask;
      config.attention_scale = factor / std::sqrt(16.0);
      const Transformer model(config, 3);
      const LayerAtInit layer = study_init(model, batch_of(config, 8, 64)).layers.front();
      EXPECT_NEAR(layer.score_std, factor, 0.3 * factor);
      EXPECT_NEAR(layer.entropy_norm, layer.predicted_norm, 0.01) << mask << factor;
    }
  }
}

// RMS by a loop over what taps would show; the gradient by a finite difference along a direction.
TEST(StudyInit, StreamAndGradientAreThoseOfTheModel) {
  TransformerConfig config = small_config();
  config.n_layer = 1;
  config.n_embd = 16;
  Transformer model(config, 3, DType::float64);
  const Batch batch = batch_of(config, 2, 7);
  const ModelAtInit found = study_init(model, batch);

  struct Shift final : Hooks {
    Var at(HookPoint point, int, const Var& x) override {
      if (point != HookPoint::residual_post) return x;
      value = x.value();
      return shift.is_null() ? x : x + Var(shift);
    }
    Array value, shift;
  } hook;
  Pass pass;
  pass.hooks = &hook;
  const auto loss = [&] {
    return model.loss({batch.tokens, batch.examples, batch.time}, batch.targets, pass).nats;
  };
  EXPECT_NEAR(loss() / 14, found.loss_nats, 1e-12);
  const Array stream = hook.value;
  double square = 0;
  for (const double value : stream.to_vector()) square += value * value;
  EXPECT_NEAR(std::sqrt(square / static_cast<double>(stream.size())), found.layers[0].stream_rms,
              1e-12);

  double gradient_square = 0;  // over all numbers of all 14 tokens
  for (std::int64_t i = 0; i < stream.size(); ++i) {
    std::vector<double> shift(static_cast<std::size_t>(stream.size()), 0.0);
    shift[static_cast<std::size_t>(i)] = 1e-4;
    hook.shift = Array::from(stream.shape(), shift, DType::float64);
    const double ahead = loss();
    shift[static_cast<std::size_t>(i)] = -1e-4;
    hook.shift = Array::from(stream.shape(), shift, DType::float64);
    gradient_square += std::pow((ahead - loss()) / 2e-4, 2);
  }
  EXPECT_NEAR(std::sqrt(gradient_square / static_cast<double>(stream.size())),
              found.layers[0].gradient_rms, 1e-7);
  EXPECT_GT(found.embedding_gradient_rms, 0);
  EXPECT_DOUBLE_EQ(found.uniform_nats, std::log(71));
}

TEST(StudyInit, ABlocksEndKeepsItsGradientWhereTheNextBegins) {
  const TransformerConfig config = small_config();
  const ModelAtInit found = study_init(Transformer(config, 3), batch_of(config, 2, 7));
  for (const LayerAtInit& layer : found.layers) EXPECT_GT(layer.gradient_rms, 0);
}

// The law of rank: attention alone, without a mask, makes all tokens alike; skips do not.
TEST(StudyRank, CollapsesWithoutSkipsAndMask) {
  TransformerConfig config = small_config();
  config.n_layer = 6;
  config.ffn = config.residual = false;
  const auto last = [&](const char* mask, bool residual) {
    config.mask = mask;
    config.residual = residual;
    const Transformer model(config, 1, DType::float64);
    const std::vector<LayerRank> layers = study_rank(model, batch_of(config, 2, 32));
    EXPECT_EQ(layers.size(), 7u);
    EXPECT_GT(layers.front().residual, 0.9);
    return layers.back();
  };
  EXPECT_LT(last("none", false).residual, 1e-3);
  EXPECT_NEAR(last("none", false).cosine, 1, 1e-6);
  EXPECT_GT(last("causal", false).residual, 1e-3);
  EXPECT_GT(last("none", true).residual, 0.1);
}

// Two tokens at a right angle: mean (1/2, 1/2), residual sqrt(1/2), cosine 0, by hand.
TEST(StudyRank, OfTwoTokensByHand) {
  TransformerConfig config = small_config();
  config.vocabulary = 2;
  config.n_embd = config.n_head = 2;
  Transformer model(config, 1, DType::float64);
  model.parameters()
      .find("token_embedding.weight")
      ->set_value(Array::from({2, 2}, {1, 0, 0, 1}, DType::float64));
  const Batch batch{1, 2, {0, 1}, {0, 1}};
  const LayerRank embedding = study_rank(model, batch).front();
  EXPECT_NEAR(embedding.residual, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(embedding.cosine, 0, 1e-12);
}

// Attention's gradient stays of one size over distance; those of recurrent cells die.
TEST(StudyDistance, AttentionReachesWhereRecurrentCellsDoNot) {
  TransformerConfig config = small_config();
  config.n_layer = 1;
  const Transformer model(config, 1, DType::float64);
  const Batch batch = batch_of(config, 4, 48);
  const GradientReach found = gradient_reach(model, {batch.tokens, batch.examples, batch.time}, 1);
  ASSERT_EQ(found.lstm.size(), 48u);
  EXPECT_EQ(found.attention[0], 1);
  EXPECT_GT(found.attention[40], found.attention[1] / 5);
  EXPECT_LT(found.rnn[40], found.rnn[1] / 100);
  EXPECT_LT(found.lstm[40], found.lstm[1] / 10);  // its forget gate starts open
}

// The mean square of a linear regression has the Hessian 2 X^T X / rows whatever the weights; for
// X below that is diag(2, 1/2) times 2 turned by 45 degrees, by hand.
TEST(Sharpness, OfALinearRegressionIsTheLargestEigenvalueOfItsNormalMatrix) {
  ParameterStore store;
  const Parameter& w = store.create("w", Array::from({1, 2}, {0.3, -2}, DType::float64));
  const Array x = Array::from({2, 2}, {2, 2, 1, -1}, DType::float64);
  const Array y = Array::from({2, 1}, {1, -1}, DType::float64);
  const auto gradient = [&] {
    Tape tape;
    const Var loss = mean(square(linear(Var(x), tape.parameter(w)) - Var(y)));
    return std::vector<Array>{tape.backward(loss)[w]};
  };
  const Sharpness found = sharpness(store, gradient, {.tolerance = 1e-10});
  // X^T X = [[5, 3], [3, 5]]: eigenvalues 8 and 2; times 2 / 2 rows.
  EXPECT_NEAR(found.eigenvalue, 8, 1e-6);
  EXPECT_LT(found.residual, 1e-6);
  EXPECT_TRUE(found.converged);
  EXPECT_EQ(w.value().to_vector(), (std::vector<double>{0.3, -2}));
}

// sum of 3/2 a^2 - 5/2 b^2 + e^(2c): the largest is not the one of largest absolute value.
TEST(Sharpness, KeepsTheSignAndSeesBeyondQuadratics) {
  ParameterStore store;
  const Parameter& w = store.create("w", Array::from({3}, {1, 1, 0.1}, DType::float64));
  const Array curvature = Array::from({3}, {1.5, -2.5, 0}, DType::float64);
  const Array last = Array::from({3}, {0, 0, 1}, DType::float64);
  const auto gradient = [&] {
    Tape tape;
    const Var v = tape.parameter(w);
    const Var loss = sum(Var(curvature) * square(v)) + sum(Var(last) * exp(v * 2));
    return std::vector<Array>{tape.backward(loss)[w]};
  };
  // d2/dc2 e^2c = 4 e^2c = 4.8856 at 0.1.
  const Sharpness found = sharpness(store, gradient, {.tolerance = 1e-7});
  EXPECT_NEAR(found.eigenvalue, 4 * std::exp(0.2), 1e-4);
}

TEST(Sharpness, RefusesFloat32) {
  ParameterStore store;
  store.create("w", Array::from({1}, {1}));
  EXPECT_THROW((void)sharpness(store, [] { return std::vector<Array>{}; }), ShapeError);
}

// Every example's gradient on its own, averaged here without the estimators.
TEST(NoiseScale, OfAModelIsThatOfItsExamples) {
  TransformerConfig config = small_config();
  config.n_layer = 1;
  const Transformer model(config, 1, DType::float64);
  const auto task = distinct_tokens(config.vocabulary, 8);
  const BatchSource batches(*task, 5, 0);
  const NoiseScale found = measure_noise_scale(model, batches, 1, 4);
  std::vector<double> mean;
  double squares = 0;
  for (int i = 0; i < 4; ++i) {
    std::vector<double> one;
    for (const Array& part : batch_gradient(model, batches.evaluation(Split::train, i, 1)).of_sum)
      for (const double value : part.to_vector()) one.push_back(value / 8);
    mean.resize(one.size(), 0.0);
    for (std::size_t k = 0; k < one.size(); ++k) {
      mean[k] += one[k] / 4;
      squares += one[k] * one[k];
    }
  }
  double of_mean = 0;
  for (const double value : mean) of_mean += value * value;
  // The sample covariance of four examples.
  const double noise = (squares - 4 * of_mean) / 3;
  EXPECT_NEAR(found.noise, noise, 1e-9 * noise);
  EXPECT_NEAR(found.gradient_square, of_mean - noise / 4, 1e-9 * noise);
}

// Update for update what the trainer does.
TEST(ShortTraining, EndsWhereATrainingRunEnds) {
  RunConfig config = RunConfig::defaults_for("copy");
  config.model.n_layer = 1;
  config.model.n_embd = 16;
  config.model.dropout = 0.1;
  config.batch_size = 8;
  config.grad_accum = 2;
  config.max_iters = 3;
  config.eval_iters = 1;
  config.schedule.shape = "constant";
  config.schedule.warmup_iters = 0;
  config = config.resolved();
  const auto task = make_task(config.task);
  ShortTraining training(config, *task);
  for (int i = 0; i < 3; ++i) training.step(config.schedule.lr);
  Trainer trainer(config, *task);
  (void)trainer.run(nullptr, "", {});
  EXPECT_EQ(training.model().parameters().hash(), trainer.model().parameters().hash());
}

}  // namespace attune::study_model_test
