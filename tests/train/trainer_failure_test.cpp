#include <cmath>
#include <limits>

#include "attune/train/trainer.h"
#include "train/tiny_run.h"

namespace attune::trainer_failure_test {

// B36: w -= lr g scaled to norm 1, so the whole step has length lr times the bound.
TEST(Clipping, ScalesTheWholeGradientToTheBound) {
  RunConfig config = plain_descent();
  config.max_iters = 1;
  config.schedule.lr = 1;
  TinyRun unbounded(config);
  config.grad_clip = 1e-3;
  TinyRun clipped(config);
  const Transformer initial(model_config(clipped.config, *clipped.task),
                            static_cast<std::uint64_t>(config.seed), DType::float64);
  (void)unbounded();
  (void)clipped();
  double squares = 0;
  for (const Parameter& before : initial.parameters()) {
    const std::vector<double> w = before.value().to_vector();
    const std::vector<double> after =
        clipped.trainer.model().parameters()[before.index()].value().to_vector();
    for (std::size_t i = 0; i < w.size(); ++i) squares += (after[i] - w[i]) * (after[i] - w[i]);
  }
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 1e-12);
  const UpdateRecord& update = *clipped.recorder.records[0].update;
  EXPECT_TRUE(update.clipped);
  EXPECT_GT(update.grad_norm, 1e-2);  // as it was before
  EXPECT_EQ(update.grad_norm, unbounded.recorder.records[0].update->grad_norm);
}

TEST(Clipping, LeavesASmallerGradientBitwiseAsItIs) {  // B36
  RunConfig config = plain_descent();
  TinyRun unbounded(config);
  config.grad_clip = 1e6;
  TinyRun bounded(config);
  EXPECT_EQ(unbounded().parameter_hash, bounded().parameter_hash);
  EXPECT_FALSE(bounded.recorder.records[0].update->clipped);
}

// Puts an infinity into a weight.
void poison(Parameter& parameter) {
  Array& value = parameter.writable_value();
  value.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
}

TEST(Divergence, EndsTheRunNamesAParameterAndChangesNoWeight) {  // B36
  TinyRun run(tiny());
  std::string poisoned_hash;
  run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step != 5) return;
    ParameterStore& parameters = run.trainer.model().parameters();
    poison(*parameters.find("block.0.attention.query.weight"));
    poisoned_hash = parameters.hash();
  };
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_EQ(summary.steps, 6);
  EXPECT_EQ(summary.parameter_hash, poisoned_hash);
  const StepRecord& last = run.recorder.records.back();
  EXPECT_TRUE(last.logged);
  EXPECT_TRUE(last.update->skipped);
  ASSERT_FALSE(last.update->nonfinite.empty());
  const std::string& name = last.update->nonfinite.front();
  EXPECT_NE(run.trainer.model().parameters().find(name), nullptr);
  EXPECT_NE(summary.message.find("diverged at step 6: the gradient of " + name), std::string::npos)
      << summary.message;
}

TEST(Divergence, OfAHugeLearningRateIsFound) {
  RunConfig config = tiny();
  config.grad_clip = 0;
  config.schedule.lr = 1e38;
  config.schedule.warmup_iters = 0;
  TinyRun run(config);
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_LT(summary.steps, 10);
}

TEST(SkipNonfinite, LeavesWeightsAndMomentsAndGoesOn) {  // B36
  RunConfig config = tiny();
  config.skip_nonfinite = true;
  config.save_interval = 1;
  const Directory directory;
  TinyRun run(config, &*directory);
  Parameter& weight = *run.trainer.model().parameters().find("block.0.attention.query.weight");
  Array good;
  TensorFile before;
  run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step == 4) {
      good = weight.value();
      poison(weight);
    } else if (record.step == 5) {
      before = directory.saved();  // of step 5, which was not to be left
      weight.set_value(good);
    } else if (record.step == 6) {
      TensorFile after = directory.saved();
      for (TensorFile* file : {&before, &after}) {
        file->metadata.clear();
        std::erase_if(file->tensors, [&](const auto& t) { return t.first == weight.name(); });
      }
      expect_same_files(after, before);
    }
  };
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::done);
  EXPECT_EQ(summary.steps, 10);
  EXPECT_FALSE(run.recorder.records[4].update->skipped);
  EXPECT_TRUE(run.recorder.records[5].update->skipped);
  EXPECT_FALSE(run.recorder.records[6].update->skipped);
  EXPECT_EQ(directory.checkpoint().state().optimizer_updates, 9);
  EXPECT_EQ(directory.checkpoint().state().counters.at("skipped_steps"), 1);
  ASSERT_EQ(run.recorder.notes.size(), 1u);
  EXPECT_TRUE(run.recorder.notes[0].starts_with("step 5: ")) << run.recorder.notes[0];
}

// A model that is not finite from the start has a loss that is nothing like the unigram entropy.
TEST(SkipNonfinite, ALossThatIsNoNumberIsNotStalled) {
  RunConfig config = tiny();
  config.skip_nonfinite = true;
  TinyRun run(config);
  poison(*run.trainer.model().parameters().find("block.0.attention.query.weight"));
  EXPECT_EQ(run().status, RunStatus::done);
}

// Nothing is asked in training.
class SilentTask final : public Task {
 public:
  [[nodiscard]] std::string_view name() const override { return "silent"; }
  [[nodiscard]] std::string_view description() const override { return "silent"; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 3; }
  [[nodiscard]] std::int64_t time() const override { return 4; }
  [[nodiscard]] double chance() const override { return 0; }
  void draw(Split split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    for (std::size_t t = 0; t < 4; ++t) {
      tokens[t] = static_cast<std::int32_t>(cursor.below(3));
      targets[t] = split == Split::train ? kIgnore : 1;
    }
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return token == kIgnore ? "_" : std::to_string(token);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
};

// B20: weight decay would change the weights if the step were taken.
TEST(Trainer, TakesNoStepOnABatchWithoutAScoredToken) {
  const SilentTask task;
  Trainer trainer(tiny().resolved(), task);
  const std::string initial = trainer.model().parameters().hash();
  Recorder recorder;
  TrainObserver* const observers[] = {&recorder};
  const RunSummary summary = trainer.run(nullptr, "", observers);
  EXPECT_EQ(summary.steps, 10);
  EXPECT_EQ(summary.parameter_hash, initial);
  EXPECT_EQ(recorder.notes.size(), 10u);
  EXPECT_TRUE(recorder.records[0].update->skipped);
  EXPECT_EQ(recorder.records[0].update->train_loss, 0);
}

}  // namespace attune::trainer_failure_test
