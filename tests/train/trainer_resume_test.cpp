#include <ostream>

#include "attune/train/trainer.h"
#include "train/tiny_run.h"

namespace attune {
namespace {

struct ResumeCase {
  const char* name;
  std::function<void(RunConfig&)> change;
};
void PrintTo(const ResumeCase& resume_case, std::ostream* out) { *out << resume_case.name; }

class Resumed : public testing::TestWithParam<ResumeCase> {};

// Interrupted at every kind of step, gone on with another number of threads.
TEST_P(Resumed, EqualsTheUnbrokenRunBitwise) {  // B35, B42
  RunConfig config = tiny();
  GetParam().change(config);
  const Directory whole_directory;
  TinyRun whole(config, &*whole_directory);
  const RunSummary expected = whole();
  ASSERT_EQ(expected.steps, 10);

  for (const std::int64_t stop : {0, 4, 5, 7, 9}) {
    SCOPED_TRACE(stop);
    const Directory directory;
    TinyRun first(config, &*directory);
    std::int64_t asked = 0;
    const RunSummary broken = first([&] { return asked++ == stop; });
    ASSERT_EQ(broken.status, RunStatus::interrupted);
    ASSERT_EQ(broken.steps, stop);
    RunConfig other = config;
    other.threads = 3;
    TinyRun second(other, &*directory);
    second.trainer.resume(directory.checkpoint());
    const RunSummary actual = second();
    EXPECT_EQ(second.recorder.first_step, stop);
    EXPECT_EQ(actual.status, expected.status);
    EXPECT_EQ(actual.parameter_hash, expected.parameter_hash);
    EXPECT_EQ(actual.best_val_loss, expected.best_val_loss);
    std::vector<std::string> lines = first.recorder.lines;
    lines.insert(lines.end(), second.recorder.lines.begin(), second.recorder.lines.end());
    EXPECT_EQ(lines, whole.recorder.lines);
    expect_same_files(directory.saved(), whole_directory.saved());
  }
}

INSTANTIATE_TEST_SUITE_P(
    With, Resumed,
    testing::Values(ResumeCase{"AdamW", [](RunConfig&) {}},
                    ResumeCase{"Adam", [](RunConfig& c) { c.optimizer.kind = "adam"; }},
                    ResumeCase{"Sgd", [](RunConfig& c) { c.optimizer.kind = "sgd"; }},
                    ResumeCase{"Accumulation", [](RunConfig& c) { c.grad_accum = 3; }},
                    ResumeCase{"EpochsOfAFiniteSet", [](RunConfig& c) { c.train_size = 25; }},
                    ResumeCase{"AnEpochThatEndsWithAStep", [](RunConfig& c) { c.train_size = 30; }},
                    ResumeCase{"Float64AndSmoothing",
                               [](RunConfig& c) {
                                 c.dtype = DType::float64;
                                 c.label_smoothing = 0.1;
                               }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attune
