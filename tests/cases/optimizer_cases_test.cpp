#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/optim/optimizer.h"
#include "attune/train/training_step.h"
#include "cli/run_binary.h"
#include "model/model_test.h"
#include "train/tiny_run.h"

// Kinds of fault that others reported, in optimizers, schedules, clipping and means (B33 to B38).
// Most are tests of the optimizer, the schedule and the training step.
namespace attune::optimizer_cases_test {

using cli_test::operator+;

OptimizerConfig plain_sgd() { return {.kind = "sgd", .momentum = 0, .weight_decay = 0}; }

// A whole model under gradients of zero: what decays shrinks by lr * decay, the rest keeps its
// bits.
TEST(DecayCases, OnlyWeightsAndEmbeddingsShrinkUnderAZeroGradient) {  // B33
  for (const char* positions : {"learned", "t5"}) {
    TransformerConfig config = small_config();
    config.positions = positions;
    config.tie_head = false;
    Transformer model = random_model(config);
    const Transformer before = random_model(config);
    std::vector<Array> zeros;
    for (const Parameter& parameter : model.parameters())
      zeros.push_back(Array::zeros(parameter.shape(), parameter.dtype()));
    ThreadPool pool(1);
    make_optimizer({.weight_decay = 0.1})->step(model.parameters(), zeros, 1, 0.1, pool);
    for (const Parameter& parameter : model.parameters()) {
      const std::string& name = parameter.name();
      const bool is_bias_table = name == "position.weight" && config.positions == "t5";
      const bool shrinks = name.ends_with(".weight") && !is_bias_table;
      std::vector<double> expected = before.parameters().find(name)->value().to_vector();
      for (double& value : expected) value *= shrinks ? 0.99 : 1;
      SCOPED_TRACE(name);
      expect_near(parameter.value(), expected, shrinks ? 1e-15 : 0);
    }
  }
}

// Warm-up longer than the run, as long as the run, none; runs of one update and of none.
TEST(ScheduleCases, DegenerateRunsHaveFiniteRates) {  // B35
  const cli_test::Workspace space;
  int number = 0;
  for (const char* schedule : {"cosine", "linear", "constant", "noam"}) {
    for (const auto& [iterations, warmup] : {std::pair{"3", "10"},
                                             {"3", "3"},
                                             {"3", "0"},
                                             {"1", "0"},
                                             {"1", "1"},
                                             {"0", "0"},
                                             {"0", "5"}}) {
      const std::string run = std::to_string(number++);
      cli_test::Words words = cli_test::tiny_run(run);
      words[10] = std::string("--max-iters=") + iterations;
      words = words + cli_test::Words{std::string("--lr-schedule=") + schedule,
                                      std::string("--warmup-iters=") + warmup};
      const cli_test::Result result = space.run(words);
      ASSERT_EQ(result.code, 0) << result.err;
      const auto lines = space.log(run + "/metrics.jsonl");
      EXPECT_EQ(lines.size(), static_cast<std::size_t>(iterations[0] - '0') + 1);
      for (const nlohmann::json& line : lines) {
        if (!line.contains("lr")) continue;
        ASSERT_TRUE(line.at("lr").is_number()) << line;
        EXPECT_GE(line.at("lr").get<double>(), 0);
        EXPECT_LE(line.at("lr").get<double>(), 1e-2);
      }
    }
  }
}

// Clipped to norm 1 under lr 1, a weight of 0 becomes minus the clipped gradient.
TEST(ClippingCases, LargeGradientsKeepTheirDirection) {  // B36
  struct Clipped {
    Array gradient;
    double norm;
    std::vector<double> expected;
  };
  const Clipped all[] = {
      {Array::from({2}, {3, 4}), 5, {-.6, -.8}},
      {Array::full({100}, 1e20, DType::float32), 1e21, std::vector<double>(100, -.1)}};
  for (const Clipped& clipped : all) {
    ParameterStore parameters;
    parameters.create("w", Array::zeros(clipped.gradient.shape(), DType::float32));
    ThreadPool pool(1);
    std::vector<Array> gradients = {clipped.gradient};
    const std::span<Array> parts[] = {gradients};
    const double norm = reduce_gradients(parts, pool);
    EXPECT_NEAR(norm / clipped.norm, 1, 1e-6);
    make_optimizer(plain_sgd())->step(parameters, gradients, 1 / norm, 1, pool);
    expect_near(parameters[0].value(), clipped.expected, 1e-6);
  }
}

// A last norm of gain 0 that stays so: every logit is 0, and so is every gradient.
TEST(ClippingCases, AZeroGradientIsNotDividedByItsNorm) {  // B36
  RunConfig config = plain_descent();
  config.grad_clip = 1;
  config.max_iters = 2;
  TinyRun run(config);
  ParameterStore& parameters = run.trainer.model().parameters();
  Parameter& gain = *parameters.find("final_norm.gain");
  gain.set_value(Array::zeros(gain.shape(), gain.dtype()));
  gain.set_frozen(true);
  const std::string before = parameters.hash();
  EXPECT_EQ(run().parameter_hash, before);
  const UpdateRecord& update = *run.recorder.records[0].update;
  EXPECT_EQ(update.grad_norm, 0);
  EXPECT_FALSE(update.clipped);
  EXPECT_FALSE(update.skipped);
}

// y = w (w 1) at w = 1: gradient 2, and w = 0.8 after a step of 0.1. One parameter listed twice
// would give 0.6 and a norm of sqrt(8), one path alone 0.9.
TEST(TiedCases, AParameterUsedTwiceIsUpdatedOnce) {  // B36, B38
  ParameterStore parameters;
  Parameter& w = parameters.create("w", Array::from({1}, {1}));
  const auto optimizer = make_optimizer(plain_sgd());
  Tape tape;
  const Var one(Array::from({1}, {1}));
  const Gradients gradients = tape.backward(sum(tape.parameter(w) * (tape.parameter(w) * one)));
  EXPECT_EQ(gradients[w].item(), 2);
  EXPECT_EQ(gradients.entries().size(), 1u);
  EXPECT_EQ(gradients.global_norm(), 2);
  optimizer->step(parameters, gradients, 0.1);
  EXPECT_NEAR(w.value().item(), 0.8, 1e-7);
  EXPECT_EQ(optimizer->state(parameters).size(), 1u);
  EXPECT_EQ(parameters.elements(), 1);
}

}  // namespace attune::optimizer_cases_test
