#include "attune/train/trainer.h"

#include "attune/core/error.h"
#include "train/tiny_run.h"
#include "train/train_test.h"

namespace attune::trainer_test {

TEST(Trainer, MakesExactlyMaxItersUpdates) {  // B37
  const Directory directory;
  TinyRun run(tiny(), &*directory);
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::done);
  EXPECT_EQ(summary.steps, 10);
  EXPECT_EQ(directory.checkpoint().state().step, 10);
  EXPECT_EQ(directory.checkpoint().state().optimizer_updates, 10);
  ASSERT_EQ(run.recorder.records.size(), 11u);
  for (std::int64_t step = 0; step <= 10; ++step) {
    const StepRecord& record = run.recorder.records[static_cast<std::size_t>(step)];
    EXPECT_EQ(record.step, step);
    EXPECT_EQ(record.update.has_value(), step < 10) << step;
    EXPECT_EQ(record.validation.has_value(), step % 4 == 0 || step == 10) << step;
    EXPECT_EQ(record.attention_logged, step < 10 && step % 3 == 0) << step;
  }
  EXPECT_EQ(run.recorder.ended, std::vector<RunStatus>{RunStatus::done});
}

TEST(Trainer, OfNoUpdatesEvaluatesTheInitialModel) {
  RunConfig config = tiny();
  config.max_iters = 0;
  TinyRun run(config);
  const std::string initial = run.trainer.model().parameters().hash();
  const RunSummary summary = run();
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(summary.parameter_hash, initial);
  ASSERT_EQ(run.recorder.records.size(), 1u);
  EXPECT_TRUE(run.recorder.records[0].validation);
  EXPECT_FALSE(run.recorder.records[0].update);
}

// The run again in a plain loop over its parts.
TEST(Trainer, StepTIsTheStateAfterTUpdates) {
  TinyRun run(plain_descent());
  (void)run();
  const auto seed = static_cast<std::uint64_t>(run.config.seed);
  Transformer model(model_config(run.config, *run.task), seed, DType::float64);
  const BatchSource source(*run.task, seed, 0);
  ThreadPool pool(1);
  TrainingStep training(model, pool, 4);
  for (std::int64_t t = 0; t < 10; ++t) {
    const StepRecord& record = run.recorder.records[static_cast<std::size_t>(t)];
    if (record.validation) {
      const Evaluation expected = evaluate(model, source, Split::validation, {2, 6, false}, pool);
      EXPECT_NEAR(record.validation->loss_sum, expected.loss_sum, 1e-9) << t;
    }
    const std::vector<Batch> batches{source.train(t, 0, 6, 6)};
    const StepResult step =
        training.run(batches, {{seed, static_cast<std::uint32_t>(t)}, 0, false});
    EXPECT_NEAR(record.update->train_loss, step.loss_nats, 1e-12) << t;
    EXPECT_NEAR(record.update->grad_norm, step.gradient_norm, 1e-12) << t;
    for (Parameter& parameter : model.parameters()) {
      std::vector<double> w = parameter.value().to_vector();
      const std::vector<double> g =
          step.gradients[static_cast<std::size_t>(parameter.index())].to_vector();
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.5 * g[i];
      parameter.set_value(Array::from(parameter.shape(), w, DType::float64));
    }
  }
  for (const Parameter& parameter : model.parameters()) {
    expect_near(run.trainer.model().parameters()[parameter.index()].value(), parameter.value(),
                1e-12);
  }
}

TEST(Trainer, EvaluatingChangesNothing) {  // B42
  RunConfig config = tiny();
  config.eval_interval = 1;
  TinyRun often(config);
  config.eval_interval = 1000;
  TinyRun seldom(config);
  EXPECT_EQ(often().parameter_hash, seldom().parameter_hash);
}

TEST(Trainer, UsesTheRateOfItsSchedule) {
  TinyRun run(tiny());
  (void)run();
  for (std::size_t t = 0; t < 10; ++t) {
    EXPECT_EQ(run.recorder.records[t].update->lr,
              learning_rate(run.config.schedule, static_cast<std::int64_t>(t)));
  }
}

TEST(Trainer, EndsAtATargetWithACheckpoint) {
  RunConfig config = tiny();
  config.target_loss = 100;
  const Directory directory;
  TinyRun run(config, &*directory);
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::target);
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(directory.checkpoint().state().step, 0);
  EXPECT_FALSE(run.recorder.records.back().update);
}

TEST(Trainer, ATargetOfAccuracyIsOfWholeAnswers) {
  RunConfig config = tiny("parity");  // about half of the tokens are right from the start
  config.schedule.lr = 0.02;
  config.max_iters = 40;
  config.target_accuracy = 1e-9;
  TinyRun run(config);
  const RunSummary summary = run();
  for (const StepRecord& record : run.recorder.records) {
    const bool is_last = &record == &run.recorder.records.back();
    EXPECT_TRUE(is_last || !record.validation || record.validation->exact == 0) << record.step;
  }
  ASSERT_EQ(summary.status, RunStatus::target);
  EXPECT_GT(summary.validation->exact, 0);
}

TEST(Trainer, EndsWhenTheTimeIsUpWithAnEvaluation) {
  RunConfig config = tiny();
  config.time_budget_seconds = 1e-9;
  const Directory directory;
  TinyRun run(config, &*directory);
  const RunSummary summary = run();
  EXPECT_EQ(summary.status, RunStatus::budget);
  EXPECT_TRUE(summary.validation);
  EXPECT_EQ(directory.checkpoint().state().step, summary.steps);
}

// Targets uniform over the vocabulary, and a model that cannot learn: the loss stays where the
// frequencies alone bring it.
TEST(Trainer, SaysWhenALossStalledAtTheUnigramEntropy) {
  RunConfig config = tiny("induction");
  config.task.min_length = 1;
  config.task.max_length = 5;
  config.task.symbols = 10;
  config.model.tie_head = true;  // a head of its own starts above the unigram entropy
  config.schedule.lr = config.schedule.min_lr = 0;
  config.eval_iters = 40;
  TinyRun run(config);
  EXPECT_EQ(run().status, RunStatus::stalled);

  RunConfig uneven = tiny();  // its untrained loss is far above: most targets are not uniform
  uneven.schedule.lr = uneven.schedule.min_lr = 0;
  TinyRun other(uneven);
  EXPECT_EQ(other().status, RunStatus::done);
}

TEST(ModelConfig, TakesContextAndVocabularyFromTheTask) {
  const RunConfig config = tiny().resolved();
  const auto task = make_task(config.task);
  EXPECT_EQ(model_config(config, *task).block_size, task->time());
  EXPECT_EQ(model_config(config, *task).vocabulary, task->vocabulary());
  RunConfig shorter = config;
  shorter.model.block_size = task->time() - 1;
  EXPECT_THROW((void)model_config(shorter, *task), ConfigError);
}

}  // namespace attune::trainer_test
