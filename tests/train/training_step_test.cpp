#include "attune/train/training_step.h"

#include <cmath>

#include "attune/array/buffer_pool.h"
#include "attune/core/error.h"
#include "attune/optim/optimizer.h"
#include "train/train_test.h"

namespace attune::training_step_test {

TransformerConfig with_dropout() {
  TransformerConfig config = small_config();
  config.dropout = 0.2;
  return config;
}

TrainingStep::Options options_at(std::uint32_t step, double label_smoothing = 0) {
  return {.random = {.seed = 5, .step = step}, .label_smoothing = label_smoothing};
}

StepResult step_of(const Transformer& model, const std::vector<Batch>& batches, int shards,
                   int threads, const TrainingStep::Options& options = options_at(3)) {
  ThreadPool pool(threads);
  return TrainingStep(model, pool, shards).run(batches, options);
}

// The same by one tape over one batch, without shards, threads or sums of parts.
StepResult by_one_tape(const Transformer& model, const Batch& batch,
                       const TrainingStep::Options& options = options_at(3)) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  pass.training = true;
  pass.random = options.random;
  const CrossEntropy loss = model.loss({batch.tokens, batch.examples, batch.time}, batch.targets,
                                       pass, options.label_smoothing);
  StepResult result;
  result.scored = batch.scored();
  result.correct = loss.correct;
  const auto scored = static_cast<double>(result.scored);
  result.loss_nats = loss.nats / scored;
  const Gradients gradients =
      tape.backward(loss.loss_sum, Array::scalar(1 / scored, model.dtype()));
  double squares = 0;
  for (const Parameter& parameter : model.parameters()) {
    result.gradients.push_back(gradients[parameter]);
    for (const double g : gradients[parameter].to_vector()) squares += g * g;
  }
  result.gradient_norm = std::sqrt(squares);
  return result;
}

// Shards and micro-batches of a step stand at the positions that one tape over all would draw; the
// next step at others.
TEST(TrainingStep, RandomPositionsAreOfTheWholeStep) {
  for (const char* encoding : {"learned", "rope", "fire", "transformer-xl"}) {
    SCOPED_TRACE(encoding);
    TransformerConfig config = small_config();
    config.positions = encoding;
    config.random_positions = 40;
    const Transformer model = random_model(config);
    const std::vector<Batch> parts = {random_batch(3, 5, 1), random_batch(4, 5, 2)};
    const StepResult expected = by_one_tape(model, joined(parts));
    for (const int shards : {1, 2, 5}) {
      const StepResult step = step_of(model, parts, shards, 1);
      expect_gradients_near(step, expected, 1e-11);
      const StepResult threaded = step_of(model, parts, shards, 2);
      EXPECT_EQ(threaded.loss_nats, step.loss_nats);
      EXPECT_EQ(threaded.gradient_norm, step.gradient_norm);
    }
    EXPECT_GT(std::abs(step_of(model, parts, 1, 1, options_at(4)).loss_nats - expected.loss_nats),
              1e-6);
  }
}

TEST(TrainingStep, EqualsOneTapeForAnyNumberOfShards) {
  const Transformer model = random_model(with_dropout());
  const Batch batch = random_batch(7, 5, 1);
  const StepResult expected = by_one_tape(model, batch);
  for (const int shards : {1, 2, 3, 4, 7, 12}) {
    SCOPED_TRACE(shards);
    expect_gradients_near(step_of(model, {batch}, shards, 2), expected, 1e-12);
  }
}

TEST(TrainingStep, IsBitwiseTheSameForAnyNumberOfThreads) {
  const Transformer model = random_model(with_dropout(), DType::float32);
  const std::vector<Batch> batches{random_batch(7, 5, 1), random_batch(7, 5, 2)};
  const StepResult one = step_of(model, batches, 5, 1);
  for (const int threads : {2, 3, 8}) {
    SCOPED_TRACE(threads);
    const StepResult other = step_of(model, batches, 5, threads);
    EXPECT_EQ(other.loss_nats, one.loss_nats);
    EXPECT_EQ(other.gradient_norm, one.gradient_norm);
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
      EXPECT_EQ(other.gradients[i].to_vector(), one.gradients[i].to_vector()) << i;
    }
  }
}

TEST(TrainingStep, MicroBatchesOfUnequalScoresEqualOneBigBatch) {  // B37
  const Transformer model = random_model(with_dropout());
  const std::vector<Batch> parts{random_batch(3, 5, 1, {0, 2}), random_batch(3, 5, 2),
                                 random_batch(3, 5, 3, {1})};
  ASSERT_NE(parts[0].scored(), parts[1].scored());
  const StepResult expected = by_one_tape(model, joined(parts));
  expect_gradients_near(step_of(model, parts, 1, 1), expected, 1e-12);
  expect_gradients_near(step_of(model, parts, 4, 3), expected, 1e-12);
}

// B37: a mean of means would give 3 where the tokens' mean is 2.
TEST(TrainingStep, LossWeighsTokensAlike) {
  const Transformer model = random_model(small_config());
  Batch three = random_batch(1, 4, 1);
  Batch one = random_batch(1, 4, 2);
  three.targets = {1, 2, 3, kIgnore};
  one.targets = {kIgnore, kIgnore, kIgnore, 4};
  const double mean_of_three = step_of(model, {three}, 1, 1).loss_nats;
  const double mean_of_one = step_of(model, {one}, 1, 1).loss_nats;
  ASSERT_GT(std::abs(mean_of_three - mean_of_one), 1e-3);
  EXPECT_NEAR(step_of(model, {three, one}, 2, 1).loss_nats, (3 * mean_of_three + mean_of_one) / 4,
              1e-12);
}

TEST(TrainingStep, AMicroBatchWithoutScoresAddsNothing) {
  const Transformer model = random_model(small_config());
  const Batch silent = random_batch(3, 5, 1, {0, 1, 2});
  const Batch batch = random_batch(3, 5, 2);
  const StepResult expected = by_one_tape(model, batch);
  expect_gradients_near(step_of(model, {silent, batch}, 2, 2), expected, 1e-12);
  expect_gradients_near(step_of(model, {batch, silent}, 2, 2), expected, 1e-12);
}

TEST(TrainingStep, WithoutAnyScoreThereAreNoGradients) {
  const Transformer model = random_model(small_config());
  const StepResult result = step_of(model, {random_batch(3, 5, 1, {0, 1, 2})}, 2, 2);
  EXPECT_EQ(result.scored, 0);
  EXPECT_EQ(result.loss_nats, 0);
  EXPECT_EQ(result.gradient_norm, 0);
  EXPECT_TRUE(result.gradients.empty());
}

// The loss of smoothed targets from log-softmax of the logits, in a loop.
TEST(TrainingStep, LabelSmoothingMovesMassToAllTokens) {
  const Transformer model = random_model(small_config());
  const Batch batch = random_batch(2, 3, 1);
  constexpr double kSmoothing = 0.3;
  const std::vector<double> logits = model.logits({batch.tokens, 2, 3}, Pass{}).value().to_vector();
  double sum = 0;
  for (std::size_t row = 0; row < 6; ++row) {
    if (batch.targets[row] == kIgnore) continue;
    const double* z = logits.data() + row * 11;
    double total = 0;
    for (int c = 0; c < 11; ++c) total += std::exp(z[c]);
    for (int c = 0; c < 11; ++c) {
      const double share = kSmoothing / 11 + (c == batch.targets[row] ? 1 - kSmoothing : 0);
      sum -= share * (z[c] - std::log(total));
    }
  }
  const auto options = options_at(3, kSmoothing);
  const StepResult result = step_of(model, {batch}, 2, 1, options);
  EXPECT_NEAR(result.loss_nats, sum / static_cast<double>(batch.scored()), 1e-10);
  expect_gradients_near(result, by_one_tape(model, batch, options), 1e-12);
}

TEST(TrainingStep, DropoutChangesFromStepToStep) {
  const Transformer model = random_model(with_dropout());
  const Batch batch = random_batch(4, 5, 1);
  const double third = step_of(model, {batch}, 2, 1, options_at(3)).loss_nats;
  EXPECT_EQ(step_of(model, {batch}, 2, 1, options_at(3)).loss_nats, third);
  EXPECT_NE(step_of(model, {batch}, 2, 1, options_at(4)).loss_nats, third);
}

TEST(TrainingStep, ReachesEveryParameterOfAModel) {
  const Transformer model = random_model(small_config());
  const StepResult result = step_of(model, {random_batch(2, 5, 1, {1})}, 4, 1);
  EXPECT_TRUE(result.unreached.empty());
}

TEST(TrainingStep, AParameterThatNoPassTouchesIsAnErrorUnlessOptional) {
  Transformer model = random_model(small_config());
  ParameterOptions optional;
  optional.optional = true;
  const Parameter& expert =
      model.parameters().create("expert", Array::from({1}, {1}, DType::float64), optional);
  const StepResult result = step_of(model, {random_batch(2, 5, 1)}, 2, 1);
  EXPECT_TRUE(result.gradients[static_cast<std::size_t>(expert.index())].is_null());
  model.parameters().create("forgotten", Array::from({1}, {1}, DType::float64));
  try {
    (void)step_of(model, {random_batch(2, 5, 1)}, 2, 1);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("forgotten"), std::string::npos) << error.what();
  }
}

TEST(TrainingStep, AFrozenParameterHasNoGradientAndChangesNoOther) {
  Transformer model = random_model(small_config());
  const Batch batch = random_batch(4, 5, 1);
  const StepResult all = step_of(model, {batch}, 3, 2);
  Parameter& frozen = *model.parameters().find("block.0.attention.key.weight");
  frozen.set_frozen(true);
  const StepResult result = step_of(model, {batch}, 3, 2);
  EXPECT_TRUE(result.unreached.empty());
  for (const Parameter& parameter : model.parameters()) {
    const auto i = static_cast<std::size_t>(parameter.index());
    if (&parameter == &frozen) {
      EXPECT_TRUE(result.gradients[i].is_null());
    } else {
      expect_near(result.gradients[i], all.gradients[i], 1e-14);
    }
  }
}

TEST(TrainingStep, StatisticsCountEveryRowOnce) {
  const Transformer model = random_model(small_config());
  const std::vector<Batch> batches{random_batch(5, 4, 1), random_batch(5, 4, 2)};
  TrainingStep::Options options = options_at(3);
  options.statistics = true;
  const StepResult one = step_of(model, batches, 1, 1, options);
  const StepResult four = step_of(model, batches, 4, 2, options);
  ASSERT_EQ(four.attention.layers(), 2);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const HeadStatistics& statistics = four.attention.at(layer, head);
      EXPECT_EQ(statistics.rows_valid, 10 * 3);  // of 4 causal rows the first has one key
      EXPECT_EQ(statistics.rows_single, 10);
      EXPECT_NEAR(statistics.entropy_sum, one.attention.at(layer, head).entropy_sum, 1e-12);
    }
  }
  EXPECT_EQ(step_of(model, batches, 4, 2).attention.layers(), 0);
}

TEST(TrainingStep, RefusesLessThanOneShard) {
  const Transformer model = random_model(small_config());
  ThreadPool pool(1);
  EXPECT_THROW(TrainingStep(model, pool, 0), ConfigError);
}

// A training loop of this many steps with the optimizer; the pool's state after each step.
std::vector<buffer_pool::Statistics> memory_of(int steps, int threads) {
  TransformerConfig config = with_dropout();
  Transformer model = random_model(config, DType::float32);
  ThreadPool pool(threads);
  TrainingStep training(model, pool, 4);
  const auto optimizer = make_optimizer({});
  std::vector<buffer_pool::Statistics> states;
  for (int step = 0; step < steps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step);
    const std::vector<Batch> batches{random_batch(5, 6, seed), random_batch(5, 6, seed + 1)};
    TrainingStep::Options options = options_at(static_cast<std::uint32_t>(step));
    options.statistics = step % 2 == 0;
    {
      const StepResult result = training.run(batches, options);
      optimizer->step(model.parameters(), result.gradients, 1, 1e-3, pool);
    }
    states.push_back(buffer_pool::statistics());
  }
  return states;
}

TEST(TrainingStep, AsksTheSystemForNoMemoryAfterTheSecondStep) {
  const auto states = memory_of(50, 2);
  for (std::size_t step = 2; step < 50; ++step) {
    EXPECT_EQ(states[step].system_allocations, states[1].system_allocations) << "step " << step;
  }
}

TEST(TrainingStep, KeepsNothingFromStepToStep) {  // B29
  const auto states = memory_of(2000, 2);
  for (std::size_t step = 2; step < states.size(); ++step) {
    ASSERT_EQ(states[step].live_bytes, states[1].live_bytes) << "step " << step;
  }
}

std::vector<Array> arrays(std::initializer_list<Array> list) { return list; }

TEST(ReduceGradients, AddsInTheOrderOfWorkersAndSkipsWhatTheyDidNotTouch) {
  ThreadPool pool(2);
  std::vector<Array> a = arrays({Array::from({2}, {1, 2}), Array(), Array()});
  std::vector<Array> b = arrays({Array::from({2}, {10, 20}), Array::from({1}, {3}), Array()});
  std::vector<Array> c = arrays({Array(), Array::from({1}, {4}), Array()});
  const std::vector<std::span<Array>> parts{a, b, c};
  const double norm = reduce_gradients(parts, pool);
  expect_near(a[0], {11, 22});
  expect_near(a[1], {7});
  EXPECT_TRUE(a[2].is_null());
  EXPECT_NEAR(norm, std::sqrt(11 * 11 + 22 * 22 + 7 * 7), 1e-12);
}

// B36: 100 numbers of 1e20 in float32 have norm 1e21; their squares do not fit a float.
TEST(ReduceGradients, NormDoesNotOverflow) {
  ThreadPool pool(1);
  std::vector<Array> a = arrays({Array::full({100}, 1e20, DType::float32)});
  const std::vector<std::span<Array>> parts{a};
  EXPECT_NEAR(reduce_gradients(parts, pool) / 1e21, 1, 1e-6);
}

TEST(ReduceGradients, LeavesAnArrayThatSomeoneHoldsAsItIs) {
  ThreadPool pool(1);
  const Array held = Array::from({2}, {1, 2});
  std::vector<Array> a = arrays({held});
  std::vector<Array> b = arrays({Array::from({2}, {1, 1})});
  const std::vector<std::span<Array>> parts{a, b};
  (void)reduce_gradients(parts, pool);
  expect_near(a[0], {2, 3});
  expect_near(held, {1, 2});
}

}  // namespace attune::training_step_test
