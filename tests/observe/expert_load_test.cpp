#include "attune/observe/expert_load.h"

#include <cmath>

#include "train/tiny_run.h"

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

double variation_after_training(double balance) {
  RunConfig config = mixture_of(4);
  config.expert_balance = balance;
  TinyRun run(config);
  static_cast<void>(run());
  return expert_loads(run.trainer.model(), heldout(run))[0].variation();
}

TEST(ExpertLoad, TheBalancingLossEvensIt) {
  EXPECT_LT(variation_after_training(0.1), 0.3);
  EXPECT_GT(variation_after_training(0), 0.3);
}

}  // namespace attune::expert_load_test
