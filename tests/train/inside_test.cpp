#include <cmath>
#include <map>
#include <utility>

#include "attune/train/activation_statistics.h"
#include "train/tiny_run.h"
#include "train/train_test.h"

// What a run sees of its gradients, updates and activations.
namespace attune::inside_test {

using PlaceName = std::pair<HookPoint, int>;

// Keeps every value of a forward pass.
class Keeper final : public Hooks {
 public:
  Var at(HookPoint point, int layer, const Var& x) override {
    values[{point, layer}] = x.value().to_vector();
    width[{point, layer}] = static_cast<std::size_t>(x.shape().last());
    return x;
  }
  std::map<PlaceName, std::vector<double>> values;
  std::map<PlaceName, std::size_t> width;
};

TrainingStep::Options looking(bool activations) {
  TrainingStep::Options options;
  options.random = {.seed = 5, .step = 3};
  options.activations = activations;
  return options;
}

StepResult step_of(const Transformer& model, const std::vector<Batch>& batches, int shards,
                   int threads, bool activations) {
  ThreadPool pool(threads);
  return TrainingStep(model, pool, shards).run(batches, looking(activations));
}

TransformerConfig config_of(NormPosition position, Activation activation) {
  TransformerConfig config = small_config();
  config.norm_position = position;
  config.activation = activation;
  return config;
}

double naive_dead_share(const std::vector<double>& hidden, std::size_t units, double dead_up_to) {
  std::size_t dead = 0;
  for (std::size_t unit = 0; unit < units; ++unit) {
    bool is_dead = true;
    for (std::size_t i = unit; i < hidden.size(); i += units)
      is_dead = is_dead && std::abs(hidden[i]) <= dead_up_to;
    dead += is_dead ? 1 : 0;
  }
  return static_cast<double>(dead) / static_cast<double>(units);
}

TEST(Activations, AreThoseOfTheWholeBatch) {
  for (const NormPosition position : {NormPosition::pre, NormPosition::post}) {
    const Transformer model = random_model(config_of(position, Activation::relu));
    const Batch batch = random_batch(7, 5, 3);
    Keeper keeper;
    Pass pass;
    pass.hooks = &keeper;
    static_cast<void>(model.loss({batch.tokens, 7, 5}, batch.targets, pass));
    const StepResult result = step_of(model, {batch}, 3, 2, true);
    // Five places and the hidden units of two layers, and what the head reads.
    ASSERT_EQ(result.activations.places().size(), 2U * 6 + 1);
    for (const ActivationStatistics::Place& place : result.activations.places()) {
      const std::vector<double>& values = keeper.values.at({place.point, place.layer});
      double squares = 0;
      for (const double value : values) squares += value * value;
      SCOPED_TRACE(to_string(place.point));
      EXPECT_EQ(place.count, static_cast<std::int64_t>(values.size()));
      EXPECT_NEAR(place.rms(), std::sqrt(squares / static_cast<double>(values.size())), 1e-12);
      const bool is_hidden = place.point == HookPoint::ffn_hidden;
      ASSERT_EQ(place.dead_share(0).has_value(), is_hidden);
      for (const double dead_up_to : {0.0, 0.5, 2.0}) {
        if (!is_hidden) break;
        EXPECT_EQ(*place.dead_share(dead_up_to), naive_dead_share(values, 13, dead_up_to));
      }
    }
  }
}

TEST(Activations, LookingChangesNoBit) {
  for (const NormPosition position : {NormPosition::pre, NormPosition::post}) {
    for (const NormKind norm : {NormKind::layernorm, NormKind::rmsnorm, NormKind::none}) {
      TransformerConfig config = config_of(position, Activation::gelu);
      config.norm = norm;
      config.dropout = 0.2;
      const Transformer model = random_model(config, DType::float32);
      const Batch batch = random_batch(7, 5, 3);
      const StepResult plain = step_of(model, {batch}, 3, 1, false);
      const StepResult watched = step_of(model, {batch}, 3, 1, true);
      EXPECT_TRUE(plain.activations.places().empty());
      EXPECT_EQ(watched.loss_nats, plain.loss_nats);
      for (std::size_t i = 0; i < plain.gradients.size(); ++i)
        EXPECT_EQ(watched.gradients[i].to_vector(), plain.gradients[i].to_vector());
    }
  }
}

TEST(Activations, DoNotDependOnTheThreads) {
  const Transformer model =
      random_model(config_of(NormPosition::pre, Activation::swiglu), DType::float32);
  const std::vector<Batch> batches{random_batch(7, 5, 3), random_batch(7, 5, 4, {0, 1, 2})};
  const StepResult expected = step_of(model, batches, 4, 1, true);
  for (const int threads : {2, 3}) {
    const StepResult result = step_of(model, batches, 4, threads, true);
    EXPECT_EQ(result.gradient_squares, expected.gradient_squares);
    ASSERT_EQ(result.activations.places().size(), expected.activations.places().size());
    for (std::size_t i = 0; i < result.activations.places().size(); ++i) {
      const auto& place = result.activations.places()[i];
      EXPECT_EQ(place.square_sum, expected.activations.places()[i].square_sum);
      EXPECT_EQ(place.largest, expected.activations.places()[i].largest);
    }
  }
}

TEST(Activations, AUnitThatNoTokenMovesIsDead) {
  Transformer model = random_model(config_of(NormPosition::pre, Activation::relu));
  Parameter& bias = *model.parameters().find("block.1.ffn.up.bias");
  std::vector<double> values(13, 1e6);
  values[3] = values[11] = -1e6;
  bias.set_value(Array::from(bias.shape(), values, bias.dtype()));
  const StepResult result = step_of(model, {random_batch(7, 5, 3)}, 3, 1, true);
  for (const ActivationStatistics::Place& place : result.activations.places()) {
    if (place.point != HookPoint::ffn_hidden || place.layer != 1) continue;
    EXPECT_EQ(place.dead_share(0), 2.0 / 13);
  }
}

double rms(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// w -= lr g, so that the change of the weights is the clipped gradient times the rate; by a loop
// over the weights before and after.
TEST(Gradients, OfEachParameterAreLoggedWithItsUpdate) {
  RunConfig config = plain_descent();
  config.log_grads = true;
  config.log_interval = 3;
  config.grad_clip = 0.25;
  TinyRun run(config);
  std::vector<std::vector<double>> before;
  const auto weights = [&] {
    std::vector<std::vector<double>> all;
    for (const Parameter& parameter : run.trainer.model().parameters())
      all.push_back(parameter.value().to_vector());
    return all;
  };
  before = weights();
  run.recorder.at_step = [&](const StepRecord& record) {
    const std::vector<std::vector<double>> after = weights();
    if (!record.update) return;
    const UpdateRecord& update = *record.update;
    EXPECT_EQ(update.clipped_share, update.clipped ? 1 - 0.25 / update.grad_norm : 0);
    // Evaluated at 4 and 8, where a line is due too.
    const bool is_due = record.step % 3 == 0 || record.step % 4 == 0;
    ASSERT_EQ(update.parameters.size(), is_due ? after.size() : 0U) << record.step;
    for (std::size_t i = 0; i < update.parameters.size(); ++i) {
      const ParameterRecord& found = update.parameters[i];
      EXPECT_EQ(found.name, run.trainer.model().parameters()[static_cast<std::int64_t>(i)].name());
      std::vector<double> change = after[i];
      for (std::size_t k = 0; k < change.size(); ++k) change[k] -= before[i][k];
      EXPECT_NEAR(found.weight_rms, rms(before[i]), 1e-12);
      EXPECT_NEAR(found.update_rms, rms(change), 1e-12);
      const double kept = 1 - update.clipped_share;
      EXPECT_NEAR(found.gradient_rms * kept * update.lr, rms(change), 1e-9);
    }
    before = after;
  };
  static_cast<void>(run());
  EXPECT_EQ(run.recorder.records.size(), 11U);
}

TEST(Gradients, LoggingChangesNoBit) {
  TinyRun plain(tiny());
  RunConfig config = tiny();
  config.log_grads = config.log_activations = true;
  TinyRun watched(config);
  EXPECT_EQ(watched().parameter_hash, plain().parameter_hash);
}

}  // namespace attune::inside_test
