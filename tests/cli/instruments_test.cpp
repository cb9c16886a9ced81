#include "attune/train/safetensors.h"
#include "cli/run_binary.h"

namespace attune::cli_test::instruments_test {

// A rate that sends the weights of the first update beyond what float32 holds.
Words diverging(const std::string& directory) {
  return tiny_run(directory) + Words{"--lr=1e30", "--warmup-iters=0", "--lr-schedule=constant"};
}

TEST(DetectAnomaly, EndsTheRunNamesTheFaultAndKeepsTheStepForReplay) {
  const Workspace space;
  const Result plain = space.run(diverging("plain"));
  const Result traced = space.run(diverging("run") + Words{"--detect-anomaly"});
  EXPECT_EQ(plain.code, 1);
  EXPECT_FALSE(space.holds("plain/anomaly.safetensors"));
  EXPECT_EQ(traced.code, 1);
  EXPECT_TRUE(traced.err.starts_with("attune: diverged at step ")) << traced.err;
  EXPECT_EQ(std::ranges::count(traced.err, '\n'), 1) << traced.err;
  EXPECT_NE(traced.out.find("anomaly at step "), std::string::npos) << traced.out;
  EXPECT_NE(traced.out.find("attune replay run\n"), std::string::npos) << traced.out;
  EXPECT_EQ(space.summary("run").at("status"), "diverged");
  const TensorFile step = decode_safetensors(space.read("run/anomaly.safetensors"), "step");
  EXPECT_EQ(step.metadata.at("micro_batches"), "1");
  EXPECT_NE(step.metadata.at("config").find("task = \"copy\""), std::string::npos);

  const Result replay = space.run({"replay", "run"});
  EXPECT_EQ(replay.err, "");
  EXPECT_TRUE(replay.out.starts_with("copy step " + step.metadata.at("step") + ": ")) << replay.out;
  EXPECT_NE(replay.out.find("\nfloat64: "), std::string::npos) << replay.out;
}

// What is looked at changes nothing; --check-nan is another name.
TEST(DetectAnomaly, LeavesAHealthyRunAsItIs) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("plain")).code, 0);
  const Result traced =
      space.run(tiny_run("traced") + Words{"--check-nan", "--profile=module", "--profile-values",
                                           "--dot=graph.dot", "--dot-ops"});
  EXPECT_EQ(traced.code, 0) << traced.err;
  expect_same_run(space, "plain", "traced");
  EXPECT_FALSE(space.holds("traced/anomaly.safetensors"));
  EXPECT_NE(traced.out.find("grad norm\n"), std::string::npos) << traced.out;
  EXPECT_NE(space.read("graph.dot").find("digraph"), std::string::npos);
}

TEST(Replay, SaysWhatIsMissing) {
  const Workspace space;
  ASSERT_EQ(space.run(tiny_run("run")).code, 0);
  const Result none = space.run({"replay", "run"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.err,
            "attune: run: holds no anomaly.safetensors; a run that stops with --detect-anomaly "
            "leaves one\n");
  EXPECT_EQ(space.run({"replay", "nowhere"}).code, 1);
  EXPECT_EQ(space.run({"replay"}).code, 2);
}

TEST(Instruments, AnOptionWithoutTheOneItBelongsToIsRefused) {
  const Workspace space;
  EXPECT_EQ(space.run(tiny_run("run") + Words{"--dot-ops"}).err,
            "attune: --dot-ops: needs --dot FILE\n");
  EXPECT_EQ(space.run(tiny_run("run") + Words{"--profile-values"}).err,
            "attune: --profile-values: needs --profile\n");
  EXPECT_FALSE(space.holds("run"));
}

TEST(Doctor, TakesTheOptionsOfTrainAndWritesNothing) {
  const Workspace space;
  const Words small{"--n-layer=1", "--n-head=2", "--n-embd=16", "--length=1..3", "--lr=0.01"};
  const Result healthy = space.run(Words{"doctor", "copy", "--doctor-time=1000s"} + small);
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  for (const char* check : {"initial loss", "gradients", "causality", "batch independence",
                            "overfitting", "gradient check", "checkpoint", "threads"})
    EXPECT_NE(healthy.out.find(std::string("\n") + check + " "), std::string::npos) << check;
  const Result ill =
      space.run(Words{"doctor", "copy", "--doctor-time=1000s", "--init-std=3"} + small);
  EXPECT_EQ(ill.code, 1) << ill.out;
  EXPECT_NE(ill.out.find("\ninitial loss: "), std::string::npos) << ill.out;
  EXPECT_TRUE(space.entries().empty());
  EXPECT_EQ(space.run({"doctor"}).code, 2);
  EXPECT_EQ(space.run({"doctor", "copy", "--doctor-time=0"}).code, 2);
}

}  // namespace attune::cli_test::instruments_test
