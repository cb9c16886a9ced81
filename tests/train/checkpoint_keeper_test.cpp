#include "train/checkpoint_keeper.h"

#include <limits>
#include <map>
#include <stdexcept>

#include "attune/core/error.h"
#include "train/tiny_run.h"

namespace attune::checkpoint_keeper_test {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

// Checkpoints at 2, 4, 6, 8 and 10; evaluations at 0, 4, 8 and 10.
RunConfig saving(std::int64_t keep_last) {
  RunConfig config = tiny();
  config.save_interval = 2;
  config.keep_last = keep_last;
  return config;
}

void run_whole(const RunConfig& config, const Directory& directory) {
  TinyRun run(config, &*directory);
  EXPECT_EQ(run().status, RunStatus::done);
}

// The process ends after that step's update and log line.
void run_until_killed(const RunConfig& config, const Directory& directory, std::int64_t step,
                      bool is_resumed = false) {
  TinyRun run(config, &*directory);
  if (is_resumed) run.trainer.resume(directory.checkpoint());
  run.recorder.at_step = [step](const StepRecord& record) {
    if (record.step == step) throw std::runtime_error("killed");
  };
  EXPECT_THROW((void)run(), std::runtime_error);
}

void go_on(const RunConfig& config, const Directory& directory) {
  TinyRun run(config, &*directory);
  run.trainer.resume(directory.checkpoint());
  EXPECT_EQ(run().status, RunStatus::done);
}

// Every checkpoint of the directory by its name.
std::map<std::string, TensorFile> files_of(const Directory& directory) {
  std::map<std::string, TensorFile> files;
  for (const auto& entry : fs::directory_iterator((*directory).path())) {
    if (entry.path().extension() != ".safetensors") continue;
    files.emplace(entry.path().filename().string(), Directory::saved(entry.path()));
  }
  return files;
}

void expect_same_directories(const Directory& actual, const Directory& expected) {
  const auto found = files_of(actual);
  const auto wanted = files_of(expected);
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, file] : wanted) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(found.contains(name));
    expect_same_files(found.at(name), file);
  }
}

TEST(KeepLast, KeepsThatManyWithTheNewest) {
  const std::pair<std::int64_t, Steps> cases[] = {
      {0, {}}, {1, {}}, {2, {8}}, {3, {6, 8}}, {9, {2, 4, 6, 8}}};
  for (const auto& [keep_last, kept] : cases) {
    SCOPED_TRACE(keep_last);
    const Directory directory;
    run_whole(saving(keep_last), directory);
    EXPECT_EQ((*directory).kept_steps(), kept);
    EXPECT_EQ(directory.checkpoint().state().step, 10);
    for (const std::int64_t step : kept) {
      EXPECT_EQ(Checkpoint((*directory).kept_checkpoint(step)).state().step, step);
    }
  }
}

TEST(KeepLast, AKeptCheckpointGoesOnAsTheRunDid) {
  const Directory directory;
  run_whole(saving(9), directory);
  for (const std::int64_t step : {2, 6}) {
    TinyRun rest(saving(9));
    rest.trainer.resume(Checkpoint((*directory).kept_checkpoint(step)));
    TinyRun whole(saving(9));
    EXPECT_EQ(rest().parameter_hash, whole().parameter_hash);
  }
}

TEST(KeepLast, LeavesOtherFilesAlone) {
  const Directory directory;
  for (const char* name : {"checkpoint-05.safetensors", "checkpoint-mine.safetensors", "notes"}) {
    write_file_atomically((*directory).path() / name, "mine");
  }
  write_file_atomically((*directory).kept_checkpoint(3), "mine");
  run_whole(saving(1), directory);
  EXPECT_EQ(read_file((*directory).kept_checkpoint(3)), "mine");  // nothing is dropped when off
  fs::remove((*directory).checkpoint());
  run_whole(saving(2), directory);
  EXPECT_EQ((*directory).kept_steps(), Steps{8});
  for (const char* name : {"checkpoint-05.safetensors", "checkpoint-mine.safetensors", "notes"}) {
    EXPECT_EQ(read_file((*directory).path() / name), "mine");
  }
}

TEST(KeepLast, ABrokenRunEndsWithTheFilesOfAnUnbrokenOne) {
  const RunConfig config = saving(3);
  const Directory whole;
  run_whole(config, whole);
  for (const std::int64_t step : {2, 3, 4, 7, 8, 9, 10}) {
    SCOPED_TRACE(step);
    const Directory directory;
    run_until_killed(config, directory, step);
    go_on(config, directory);
    expect_same_directories(directory, whole);
  }
}

// Killed after the newest got its second name, and before it was replaced.
TEST(KeepLast, ARunBrokenBetweenTwoFilesEndsWithTheSame) {
  const RunConfig config = saving(3);
  const Directory whole;
  run_whole(config, whole);
  const Directory directory;
  run_until_killed(config, directory, 7);
  link_or_copy((*directory).checkpoint(), (*directory).kept_checkpoint(6));
  for (const fs::path& path : {(*directory).checkpoint(), (*directory).kept_checkpoint(6),
                               (*directory).best_checkpoint()}) {
    write_file_atomically(path.string() + ".tmp", "half a fi");
  }
  go_on(config, directory);
  expect_same_directories(directory, whole);
  for (const auto& entry : fs::directory_iterator((*directory).path())) {
    if (entry.path().filename() == "best.safetensors.tmp") continue;  // no better one came
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST(KeepLast, TheCheckpointOfAnInterruptionIsKeptAsOthersAre) {
  const Directory directory;
  TinyRun first(saving(9), &*directory);
  std::int64_t asked = 0;
  EXPECT_EQ(first([&] { return asked++ == 5; }).status, RunStatus::interrupted);
  go_on(saving(9), directory);
  EXPECT_EQ((*directory).kept_steps(), (Steps{2, 4, 5, 6, 8}));
  EXPECT_EQ(Checkpoint((*directory).kept_checkpoint(5)).state().step, 5);
}

TEST(KeepLast, ARunTakenBackDropsWhatCameLater) {
  const RunConfig config = saving(3);
  const Directory whole;
  run_whole(config, whole);
  const Directory directory;
  run_whole(config, directory);
  fs::copy_file((*directory).kept_checkpoint(6), (*directory).checkpoint(),
                fs::copy_options::overwrite_existing);
  run_until_killed(config, directory, 8, true);
  EXPECT_EQ((*directory).kept_steps(), Steps{6});
  EXPECT_EQ(directory.checkpoint().state().step, 8);
  go_on(config, directory);
  EXPECT_EQ((*directory).kept_steps(), (Steps{6, 8}));
  expect_same_files(directory.saved(), whole.saved());
}

TEST(KeepLast, TheNewestStaysWhereKeepingFails) {
  const Directory directory;
  fs::create_directory((*directory).kept_checkpoint(4));
  TinyRun run(saving(2), &*directory);
  EXPECT_THROW((void)run(), IoError);
  EXPECT_EQ(directory.checkpoint().state().step, 4);
}

TEST(KeepLast, ACheckpointThatSomebodyTookAwayIsNoError) {
  const Directory directory;
  TinyRun run(saving(2), &*directory);
  run.recorder.at_step = [&](const StepRecord& record) {
    if (record.step == 9) fs::remove((*directory).checkpoint());
  };
  EXPECT_EQ(run().status, RunStatus::done);
  EXPECT_EQ((*directory).kept_steps(), Steps{6});
  EXPECT_EQ(directory.checkpoint().state().step, 10);
}

// Learns, then unlearns: the best is in the middle.
RunConfig peaking() {
  RunConfig config = saving(9);
  config.eval_interval = 1;
  config.save_interval = 3;
  config.schedule.shape = "constant";
  config.schedule.warmup_iters = 0;
  config.schedule.lr = 0.1;
  config.max_iters = 12;
  return config;
}

// Step and loss of the smallest validation loss that was recorded.
std::pair<std::int64_t, double> best_of(const Recorder& recorder) {
  std::pair<std::int64_t, double> best{-1, std::numeric_limits<double>::infinity()};
  for (const StepRecord& record : recorder.records) {
    if (record.validation && record.validation->loss_nats() < best.second) {
      best = {record.step, record.validation->loss_nats()};
    }
  }
  return best;
}

TEST(KeepBest, HoldsTheStateOfTheSmallestValidationLoss) {
  const Directory directory;
  TinyRun run(peaking(), &*directory);
  std::map<std::int64_t, std::string> hashes;  // of the state after t updates
  hashes[0] = run.trainer.model().parameters().hash();
  run.recorder.at_step = [&](const StepRecord& record) {
    hashes[record.step + 1] = run.trainer.model().parameters().hash();
  };
  (void)run();
  const auto [step, loss] = best_of(run.recorder);
  ASSERT_GT(step, 0);
  ASSERT_LT(step, 12);
  const Checkpoint best((*directory).best_checkpoint());
  EXPECT_EQ(best.state().step, step);
  EXPECT_EQ(best.state().best_val_loss, loss);
  TinyRun restored(peaking());
  restored.trainer.resume(best);
  EXPECT_EQ(restored.trainer.model().parameters().hash(), hashes.at(step));
}

TEST(KeepBest, IsTheSameAfterABreak) {
  const Directory whole;
  run_whole(peaking(), whole);
  const std::int64_t best = Checkpoint((*whole).best_checkpoint()).state().step;
  for (const std::int64_t step : {best - 1, best, best + 1, std::int64_t{11}}) {
    if (step < 3) continue;  // no checkpoint yet
    SCOPED_TRACE(step);
    const Directory directory;
    run_until_killed(peaking(), directory, step);
    go_on(peaking(), directory);
    expect_same_directories(directory, whole);
  }
}

TEST(KeepBest, GoesOnAsTheRunDid) {
  const Directory directory;
  TinyRun whole(peaking(), &*directory);
  const RunSummary expected = whole();
  TinyRun rest(peaking());
  rest.trainer.resume(Checkpoint((*directory).best_checkpoint()));
  const RunSummary actual = rest();
  EXPECT_EQ(actual.parameter_hash, expected.parameter_hash);
  EXPECT_EQ(actual.best_val_loss, expected.best_val_loss);
}

TEST(KeepBest, WritesNothingWhenOff) {
  RunConfig config = peaking();
  config.keep_best = false;
  const Directory directory;
  run_whole(config, directory);
  EXPECT_FALSE(fs::exists((*directory).best_checkpoint()));
}

// Steps 0, 3 and 7, beside those of --save-interval; 6 and 8 are kept as the newest but one.
TEST(CheckpointAt, KeepsThoseStepsForGood) {
  RunConfig config = saving(2);
  config.checkpoint_at = {0, 3, 7};
  const Directory directory;
  run_whole(config, directory);
  EXPECT_EQ((*directory).kept_steps(), (Steps{0, 3, 7, 8}));
  for (const std::int64_t step : {0, 3, 7})
    EXPECT_EQ(Checkpoint((*directory).kept_checkpoint(step)).state().step, step);
  EXPECT_EQ(directory.checkpoint().state().step, 10);
}

TEST(CheckpointAt, ABrokenRunEndsWithTheFilesOfAnUnbrokenOne) {
  RunConfig config = saving(0);
  config.checkpoint_at = {0, 3, 4, 7};
  const Directory whole;
  run_whole(config, whole);
  ASSERT_EQ((*whole).kept_steps(), (Steps{0, 3, 4, 7}));
  for (const std::int64_t step : {0, 3, 4, 9}) {
    SCOPED_TRACE(step);
    const Directory directory;
    run_until_killed(config, directory, step);
    go_on(config, directory);
    expect_same_directories(directory, whole);
  }
  // Killed after the one that stays was written, before it became the newest.
  const Directory directory;
  run_until_killed(config, directory, 6);
  fs::copy_file((*whole).kept_checkpoint(7), (*directory).kept_checkpoint(7));
  go_on(config, directory);
  expect_same_directories(directory, whole);
}

}  // namespace attune::checkpoint_keeper_test
