#include "attune/observe/expert_load.h"

#include <algorithm>
#include <cmath>

#include "train/tiny_run.h"
#include "train/train_test.h"

namespace attune::expert_load_test {

RunConfig mixture_of(std::int64_t experts) {
  RunConfig config = tiny();
  config.model.attention = "mixture";
  config.model.experts = experts;
  config.model.n_embd = 16;
  config.model.dropout = 0;
  config.batch_size = 8;
  config.schedule.lr = 1e-2;
  config.eval_interval = config.max_iters = 300;
  return config;
}

std::vector<Batch> heldout(const TinyRun& run) {
  const BatchSource source(*run.task, 1, 0);
  return {source.evaluation(Split::validation, 0, 40),
          source.evaluation(Split::validation, 40, 24)};
}

// A router that adds the same to all tokens: all of them go to its favourite.
TEST(ExpertLoad, CountsTokensAndProbabilities) {
  TinyRun run(mixture_of(3));
  Transformer& model = run.trainer.model();
  Parameter& router = *model.parameters().find("block.0.attention.router.weight");
  router.set_value(Array::zeros(router.shape(), model.dtype()));
  std::vector<ExpertLoad> loads = expert_loads(model, heldout(run));
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].shares, (std::vector<double>{1, 0, 0}));  // the first of equals
  for (const double p : loads[0].probabilities) EXPECT_NEAR(p, 1.0 / 3, 1e-6);
  EXPECT_NEAR(loads[0].variation(), std::sqrt(2), 1e-12);

  loads[0].shares = {0.5, 0.25, 0.25};
  EXPECT_NEAR(loads[0].variation(), std::sqrt((1.0 / 36 + 2.0 / 144) / 3) * 3, 1e-12);
}

TEST(ExpertLoad, IsEmptyForOtherKindsOfAttention) {
  TinyRun run(tiny());
  EXPECT_TRUE(expert_loads(run.trainer.model(), heldout(run)).empty());
}

// Mean over three seeds; in float64, so that another processor's rounding does not lead elsewhere.
double variation_after_training(double balance) {
  double sum = 0;
  for (const std::int64_t seed : {1, 2, 3}) {
    RunConfig config = mixture_of(4);
    config.dtype = DType::float64;
    config.seed = seed;
    config.expert_balance = balance;
    TinyRun run(config);
    static_cast<void>(run());
    sum += expert_loads(run.trainer.model(), heldout(run))[0].variation();
  }
  return sum / 3;
}

TEST(ExpertLoad, TheBalancingLossEvensIt) {
  EXPECT_LT(variation_after_training(0.1), 0.3);
  EXPECT_GT(variation_after_training(0), 0.3);
}

// What the balancing loss minimises, over all layers: E sum_e f_e mean_t p_te.
double balance_of(const Transformer& model, const Batch& batch) {
  double sum = 0;
  for (const ExpertLoad& load : expert_loads(model, {&batch, 1}))
    for (std::size_t e = 0; e < load.shares.size(); ++e)
      sum += static_cast<double>(load.shares.size()) * load.shares[e] * load.probabilities[e];
  return sum;
}

Transformer small_mixture() {
  TransformerConfig config = small_config();
  config.attention = "mixture";
  config.experts = 3;
  return random_model(config);
}

StepResult step_of(const Transformer& model, const Batch& batch, double balance,
                   bool checkpoint_activations = false) {
  ThreadPool pool(1);
  return TrainingStep(model, pool, 2)
      .run({&batch, 1}, {.random = {.seed = 5, .step = 3},
                         .expert_balance = balance,
                         .checkpoint_activations = checkpoint_activations});
}

// Against central differences of the measure, shard by shard; the reported loss stays that of the
// tokens.
TEST(ExpertLoad, TheBalancingLossIsItsProductShardByShard) {
  Transformer model = small_mixture();
  const Batch batch = random_batch(5, 6, 1);
  constexpr double kFactor = 0.7;
  const StepResult plain = step_of(model, batch, 0);
  const StepResult balanced = step_of(model, batch, kFactor);
  EXPECT_EQ(balanced.loss_nats, plain.loss_nats);

  const auto penalty = [&] {
    return kFactor * (balance_of(model, batch.slice(0, 2)) * 2 / 5 +
                      balance_of(model, batch.slice(2, 5)) * 3 / 5);
  };
  for (const char* name : {"block.0.attention.router.weight", "block.1.attention.router.weight",
                           "block.0.attention.key.weight", "token_embedding.weight"}) {
    SCOPED_TRACE(name);
    Parameter& parameter = *model.parameters().find(name);
    const auto index = static_cast<std::size_t>(parameter.index());
    const std::vector<double> with = balanced.gradients[index].to_vector();
    const std::vector<double> without = plain.gradients[index].to_vector();
    const std::vector<double> values = parameter.value().to_vector();
    double largest = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 12); ++i) {
      constexpr double kStep = 1e-6;
      const auto at = [&](double x) {
        std::vector<double> moved = values;
        moved[i] = x;
        parameter.set_value(Array::from(parameter.shape(), moved, DType::float64));
        return penalty();
      };
      const double slope = (at(values[i] + kStep) - at(values[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(with[i] - without[i], slope, 1e-8) << i;
      largest = std::max(largest, std::abs(slope));
    }
    parameter.set_value(Array::from(parameter.shape(), values, DType::float64));
    EXPECT_GT(largest, 1e-5);
  }
}

TEST(ExpertLoad, TheBalancingLossGoesThroughCheckpoints) {
  const Transformer model = small_mixture();
  const Batch batch = random_batch(5, 6, 1);
  const StepResult kept = step_of(model, batch, 0.7);
  const StepResult again = step_of(model, batch, 0.7, true);
  for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
    ASSERT_EQ(again.gradients[i].is_null(), kept.gradients[i].is_null()) << i;
    if (kept.gradients[i].is_null()) continue;
    EXPECT_EQ(again.gradients[i].to_vector(), kept.gradients[i].to_vector()) << i;
  }
}

}  // namespace attune::expert_load_test
