#include <limits>

#include "attune/core/error.h"
#include "attune/nn/masks.h"
#include "attune/nn/positional_encoding.h"
#include "attune/nn/self_attention.h"
#include "attune/observe/anomaly_file.h"
#include "attune/observe/anomaly_tracer.h"
#include "attune/observe/replay.h"
#include "attune/train/options.h"
#include "train/tiny_run.h"

namespace attune::anomaly_test {

void scale(Parameter& parameter, float factor) {
  for (float& element : parameter.writable_value().mutable_data<float>()) element *= factor;
}

// A run that looks for anomalies and keeps the step of one.
struct TracedRun {
  explicit TracedRun(const RunConfig& config)
      : run(config, &*directory),
        file((*directory).path() / "anomaly.safetensors"),
        tracer(file, toml(), run.task->vocabulary_texts()) {
    run.trainer.add_step_observer(&tracer);
  }
  std::string toml() const {
    RunConfig whole = run.config;
    whole.model = model_config(whole, *run.task);
    return to_toml(whole, nullptr);
  }
  Parameter& parameter(const char* name) { return *run.trainer.model().parameters().find(name); }
  RunConfig config_of_file() const {
    RunConfig config = RunConfig::defaults_for("copy");
    apply_toml(config, load_step(file).config_toml, "saved");
    return config.resolved();
  }

  Directory directory;
  TinyRun run;
  std::filesystem::path file;
  AnomalyTracer tracer;
};

RunConfig watched() {
  RunConfig config = tiny();
  config.detect_anomaly = true;
  config.save_interval = 1;
  return config;
}

// Queries and keys of about 1e25, whose products float32 cannot hold.
void make_overflow(TracedRun& traced) {
  scale(traced.parameter("block.0.attention.query.weight"), 1e25F);
  scale(traced.parameter("block.0.attention.key.weight"), 1e25F);
}

TEST(AnomalyTracer, NamesAPoisonedWeightAndKeepsTheStepAndTheLastGoodCheckpoint) {
  TracedRun traced(watched());
  Parameter& weight = traced.parameter("block.0.attention.query.weight");
  traced.run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step == 5)
      weight.writable_value().mutable_data<float>()[3] = std::numeric_limits<float>::infinity();
  };
  const RunSummary summary = traced.run();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_EQ(summary.message,
            "diverged at step 6: parameter block.0.attention.query.weight [8, 8] is not finite: "
            "inf at [0, 3], 1 of 64 elements (first read by linear in block.0.attention)");
  EXPECT_EQ(traced.directory.checkpoint().state().step, 5);  // that of step 6 would be poisoned

  const SavedStep saved = load_step(traced.file);
  EXPECT_EQ(saved.step, 6);
  const Batch batch =
      BatchSource(*traced.run.task, static_cast<std::uint64_t>(traced.run.config.seed), 0)
          .train(6, 0, 6, 6);
  ASSERT_EQ(saved.micro_batches.size(), 1u);
  EXPECT_EQ(saved.micro_batches[0].tokens, batch.tokens);
  EXPECT_EQ(saved.micro_batches[0].targets, batch.targets);
  EXPECT_EQ(static_cast<std::int64_t>(saved.parameters.size()),
            traced.run.trainer.model().parameters().count());

  ThreadPool pool(1);
  const RunConfig config = traced.config_of_file();
  const ReplayedStep own = replay(saved, config, DType::float32, pool);
  const ReplayedStep float64 = replay(saved, config, DType::float64, pool);
  EXPECT_EQ(verdict(own, float64), ReplayVerdict::poisoned_parameter);
}

// The first that fails is told, whoever computes it: two shards, two threads.
TEST(AnomalyTracer, FindsTheSameAnomalyOnAnyNumberOfThreads) {
  std::string messages[2];
  std::string files[2];
  for (int i = 0; i < 2; ++i) {
    RunConfig config = watched();
    config.grad_accum = 2;
    config.threads = i + 1;
    TracedRun traced(config);
    make_overflow(traced);
    messages[i] = traced.run().message;
    files[i] = read_file(traced.file);
    EXPECT_EQ(traced.tracer.found()->place.micro_batch, 0);
    EXPECT_EQ(traced.tracer.found()->place.shard, 0);
  }
  EXPECT_NE(messages[0].find("diverged at step 0: attention in block.0.attention gives nan at ["),
            std::string::npos)
      << messages[0];
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(files[0], files[1]);
}

TEST(Replay, OfAnOverflowIsFiniteInFloat64) {
  TracedRun traced(watched());
  make_overflow(traced);
  (void)traced.run();
  const SavedStep saved = load_step(traced.file);
  ThreadPool pool(2);
  const RunConfig config = traced.config_of_file();
  const ReplayedStep own = replay(saved, config, DType::float32, pool);
  const ReplayedStep float64 = replay(saved, config, DType::float64, pool);
  ASSERT_TRUE(own.anomaly());
  EXPECT_EQ(to_string(own.anomaly()->anomaly), to_string(traced.tracer.found()->anomaly));
  EXPECT_FALSE(float64.anomaly());
  EXPECT_EQ(verdict(own, float64), ReplayVerdict::overflow);
  // Both precisions met the same queries.
  const TracedValue& query = own.anomaly()->anomaly.inputs.at(0);
  const AnomalyTrace::Seen seen = float64.tracer->trace({0, 0}).seen(query.slot, query.maker);
  EXPECT_EQ(query.maker, "linear");
  ASSERT_TRUE(query.largest && seen.largest);
  EXPECT_GT(*query.largest, 1e24);
  EXPECT_NEAR(*seen.largest / *query.largest, 1, 1e-3);
  EXPECT_NE(to_text(own, float64).find("float32 overflows"), std::string::npos);
}

TEST(Replay, OfAFaultIsNotFiniteInFloat64Either) {
  RunConfig config = watched();
  config.dtype = DType::float64;
  TracedRun traced(config);
  for (const char* name : {"block.0.attention.query.weight", "block.0.attention.key.weight"}) {
    Parameter& weight = traced.parameter(name);
    weight.set_value(Array::full(weight.shape(), 1e200, DType::float64));
  }
  EXPECT_EQ(traced.run().status, RunStatus::diverged);
  ThreadPool pool(1);
  const ReplayedStep own =
      replay(load_step(traced.file), traced.config_of_file(), DType::float64, pool);
  EXPECT_EQ(verdict(own, own), ReplayVerdict::fault);
}

// Dropout and all: the run's loss at that step, bit for bit.
TEST(Replay, OfASoundStepIsThatStep) {
  TinyRun run(tiny());
  (void)run();
  SavedStep saved;
  saved.vocabulary = run.task->vocabulary_texts();
  RunConfig config = run.config;
  config.model = model_config(config, *run.task);
  saved.micro_batches.push_back(
      BatchSource(*run.task, static_cast<std::uint64_t>(config.seed), 0).train(0, 0, 6, 6));
  const Transformer fresh(config.model, static_cast<std::uint64_t>(config.seed));
  for (const Parameter& parameter : fresh.parameters())
    saved.parameters.emplace_back(parameter.name(), parameter.value());
  ThreadPool pool(1);
  const ReplayedStep again = replay(saved, config, DType::float32, pool);
  EXPECT_EQ(again.loss_nats, run.recorder.records.front().update->train_loss);
  EXPECT_EQ(again.gradient_norm, run.recorder.records.front().update->grad_norm);
  EXPECT_EQ(verdict(again, again), ReplayVerdict::not_reproduced);
}

TEST(AnomalyFile, RefusesWhatDoesNotFit) {
  TracedRun traced(watched());
  make_overflow(traced);
  (void)traced.run();
  SavedStep saved = load_step(traced.file);
  saved.parameters.pop_back();
  EXPECT_THROW(restore_parameters(saved, traced.run.trainer.model().parameters()), IoError);
  saved.micro_batches[0].tokens[0] = 99;
  const std::filesystem::path file = (*traced.directory).path() / "other.safetensors";
  save_step(file, saved);
  try {
    (void)load_step(file);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(std::string(error.what()),
              file.string() + ": batch.0.tokens holds 99, which is no token");
  }
  EXPECT_THROW((void)load_step((*traced.directory).checkpoint()), IoError);
}

// One training step of a configuration under the tracer; the message, empty where all is finite.
std::string message_of(const RunConfig& wanted) {
  RunConfig config = wanted.resolved();
  const auto task = make_task(config.task);
  const Transformer model(model_config(config, *task), 1);
  ThreadPool pool(1);
  AnomalyTracer tracer;
  StepObserver* const observers[] = {&tracer};
  TrainingStep::Options options;
  options.observers = observers;
  const std::vector<Batch> batches = {BatchSource(*task, 1, 0).train(0, 0, 6, 6)};
  const StepResult result = TrainingStep(model, pool, 2).run(batches, options);
  return tracer.verdict({0, batches, model, result});
}

// Masks and choices are made of infinities inside; nobody must be alarmed.
TEST(AnomalyTracer, IsSilentOverEveryKindOfAttentionEncodingAndMask) {
  for (const AttentionInfo& kind : list_attention()) {
    RunConfig config = tiny();
    config.model.attention = kind.name;
    config.model.attention_dropout = 0;  // not a part of all of them
    config.model.top_k = 2;
    EXPECT_EQ(message_of(config), "") << kind.name;
  }
  for (const EncodingInfo& encoding : list_encodings()) {
    RunConfig config = tiny();
    config.model.positions = encoding.name;
    EXPECT_EQ(message_of(config), "") << encoding.name;
  }
  for (const char* mask : {"none", "causal+window", "causal+dilated", "prefix"}) {
    RunConfig config = tiny();
    config.model.mask = mask;
    config.model.mask_sizes.window = 3;
    EXPECT_EQ(message_of(config), "") << mask;
  }
}

}  // namespace attune::anomaly_test
