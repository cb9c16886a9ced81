#include <stdexcept>
#include <tuple>

#include "attune/core/error.h"
#include "attune/train/generation.h"
#include "attune/train/trainer.h"
#include "train/tiny_run.h"

namespace attune::trainer_resume_test {

// How the first part of a run of ten steps ends. A crash comes after the update and the log line of
// that step; what was not saved is lost.
enum class End { interrupted, reached, crashed };
struct Break {
  const char* name;
  End end;
  std::int64_t step;
  std::int64_t resumed_step;  // what the second part begins with; 0: no checkpoint yet
  std::int64_t threads_before;
  std::int64_t threads_after;
};
// Saved at 3, 6 and 9, evaluated at 4 and 8; epochs of a finite set end at 5 or within step 4.
constexpr Break kBreaks[] = {
    {"interrupted at the first step", End::interrupted, 0, 0, 1, 3},
    {"interrupted where an evaluation is due", End::interrupted, 4, 4, 3, 1},
    {"interrupted at the end of an epoch", End::interrupted, 5, 5, 2, 1},
    {"interrupted at the last step", End::interrupted, 9, 9, 1, 2},
    {"a run of five steps made longer", End::reached, 5, 5, 1, 2},
    {"crashed before the first checkpoint", End::crashed, 2, 0, 2, 3},
    {"crashed between two checkpoints", End::crashed, 7, 6, 1, 3},
    {"crashed after a checkpoint", End::crashed, 9, 9, 3, 2},
};

enum class Data { endless, epochs_within_a_step, epochs_of_whole_steps };

struct Variant {
  std::string optimizer;
  std::int64_t grad_accum;
  Data data;
  DType dtype = DType::float32;
};

RunConfig config_of(const Variant& variant) {
  RunConfig config = tiny();
  config.optimizer.kind = variant.optimizer;
  config.grad_accum = variant.grad_accum;
  config.dtype = variant.dtype;
  config.save_interval = 3;
  config.log_grads = config.log_activations = true;
  config.schedule.decay_iters = config.max_iters;
  if (variant.dtype == DType::float64) config.label_smoothing = 0.1;
  if (variant.data == Data::epochs_within_a_step) config.train_size = 25 * variant.grad_accum;
  if (variant.data == Data::epochs_of_whole_steps) config.train_size = 30 * variant.grad_accum;
  return config;
}

// What a person does with a model between two parts of its training.
void evaluate_and_sample(TinyRun& run) {
  const BatchSource source(*run.task, 99, 0);
  ThreadPool pool(2);
  (void)evaluate(run.trainer.model(), source, Split::validation, {1, 5, true}, pool);
  const std::int32_t prompt[] = {1, 2};
  GenerationOptions options;
  options.max_new_tokens = 3;
  ASSERT_GT(generate(run.trainer.model(), prompt, options, [](std::int32_t) {}), 0);
}

// Runs the first part and returns its lines.
std::vector<std::string> break_off(RunConfig config, const Break& where,
                                   const Directory& directory) {
  config.threads = where.threads_before;
  if (where.end == End::reached) config.max_iters = where.step;
  TinyRun run(config, &*directory);
  run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step == 1) evaluate_and_sample(run);
    if (where.end == End::crashed && record.step == where.step) throw std::runtime_error("crash");
  };
  std::int64_t asked = 0;
  const auto interrupted = [&] { return where.end == End::interrupted && asked++ == where.step; };
  if (where.end == End::crashed) {
    EXPECT_THROW((void)run(interrupted), std::runtime_error);
  } else {
    const RunSummary summary = run(interrupted);
    EXPECT_EQ(summary.steps, where.step);
    EXPECT_EQ(summary.status, where.end == End::reached ? RunStatus::done : RunStatus::interrupted);
  }
  return run.recorder.lines;
}

void expect_equal_when_broken(const RunConfig& config, const Break& where,
                              const RunSummary& expected, const Recorder& whole,
                              const Directory& whole_directory) {
  const Directory directory;
  std::vector<std::string> lines = break_off(config, where, directory);
  RunConfig other = config;
  other.threads = where.threads_after;
  TinyRun second(other, &*directory);
  const bool has_checkpoint = std::filesystem::exists((*directory).checkpoint());
  EXPECT_EQ(has_checkpoint, where.end != End::crashed || where.resumed_step > 0);
  if (has_checkpoint) second.trainer.resume(directory.checkpoint());
  evaluate_and_sample(second);
  const RunSummary actual = second();
  EXPECT_EQ(second.recorder.first_step, where.resumed_step);
  EXPECT_EQ(actual.status, expected.status);
  EXPECT_EQ(actual.parameter_hash, expected.parameter_hash);
  EXPECT_EQ(actual.best_val_loss, expected.best_val_loss);
  EXPECT_EQ(actual.train_loss, expected.train_loss);
  // As the log files are cut when a run is resumed.
  lines.resize(static_cast<std::size_t>(where.resumed_step));
  lines.insert(lines.end(), second.recorder.lines.begin(), second.recorder.lines.end());
  EXPECT_EQ(lines, whole.lines);
  expect_same_files(directory.saved(), whole_directory.saved());
  expect_same_files(Directory::saved((*directory).best_checkpoint()),
                    Directory::saved((*whole_directory).best_checkpoint()));
}

void expect_equal_wherever_broken(const Variant& variant) {
  const RunConfig config = config_of(variant);
  const Directory directory;
  TinyRun whole(config, &*directory);
  const RunSummary expected = whole();
  ASSERT_EQ(expected.steps, 10);
  for (const Break& where : kBreaks) {
    SCOPED_TRACE(where.name);
    expect_equal_when_broken(config, where, expected, whole.recorder, directory);
  }
}

// Parameters, optimizer, final hash and every number of every record but times, with dropout and
// warm-up, with evaluations and samples in between, on other numbers of threads.
class Resumed : public testing::TestWithParam<std::tuple<const char*, std::int64_t, Data>> {};

TEST_P(Resumed, EqualsTheUnbrokenRunBitwise) {
  const auto& [optimizer, grad_accum, data] = GetParam();
  expect_equal_wherever_broken({optimizer, grad_accum, data});
}

std::string name_of(const testing::TestParamInfo<Resumed::ParamType>& info) {
  const auto& [optimizer, grad_accum, data] = info.param;
  const char* const kind = data == Data::endless                ? "Endless"
                           : data == Data::epochs_within_a_step ? "EpochsWithinAStep"
                                                                : "EpochsOfWholeSteps";
  return fmt::format("{}Accumulating{}{}", optimizer, grad_accum, kind);
}

INSTANTIATE_TEST_SUITE_P(Matrix, Resumed,
                         testing::Combine(testing::Values("adamw", "adam", "sgd"),
                                          testing::Values(std::int64_t{1}, std::int64_t{3}),
                                          testing::Values(Data::endless, Data::epochs_within_a_step,
                                                          Data::epochs_of_whole_steps)),
                         name_of);

TEST(ResumedFromAHostileFile, CountersThatAreNoneLeaveTheModelAlone) {
  TinyRun run(tiny());
  Directory directory;
  for (const char* name : {"skipped_steps", "stalled_since", "elapsed_seconds"}) {
    for (const double value : {std::nan(""), 1e300, -2.0}) {
      CheckpointState state;
      state.counters = {{name, value}};
      save_checkpoint((*directory).checkpoint(), state, run.trainer.model().parameters(),
                      *make_optimizer({}));
      TinyRun other(tiny());
      const std::string hash = other.trainer.model().parameters().hash();
      EXPECT_THROW(other.trainer.resume(directory.checkpoint()), IoError) << name << ' ' << value;
      EXPECT_EQ(other.trainer.model().parameters().hash(), hash);
    }
  }
}

TEST(ResumedInFloat64, EqualsTheUnbrokenRunBitwise) {
  expect_equal_wherever_broken({"adamw", 2, Data::epochs_within_a_step, DType::float64});
}

}  // namespace attune::trainer_resume_test
