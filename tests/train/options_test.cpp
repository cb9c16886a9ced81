#include "attune/train/options.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "train/changed_options.h"

namespace attune::options_test {

RunConfig with(const std::string& name, const std::string& value) {
  RunConfig config = RunConfig::defaults_for("text");
  find_option(name)->set(config, value);
  return config;
}

std::string error_of(const std::string& name, const std::string& value) {
  try {
    (void)with(name, value).resolved();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, NamesAndAliasesAreUniqueAndCanonical) {
  std::set<std::string> seen;
  for (const std::string& name : option_names()) {
    EXPECT_TRUE(name.starts_with("--"));
    EXPECT_EQ(name.find_first_of("_ABCDEFGHIJKLMNOPQRSTUVWXYZ "), std::string::npos) << name;
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

TEST(Options, EveryDocumentedNameIsKnown) {
  for (const char* name : {"n-layer",
                           "layers",
                           "n-head",
                           "heads",
                           "n-embd",
                           "d-model",
                           "block-size",
                           "context",
                           "d-ff",
                           "activation",
                           "pos",
                           "pos-enc",
                           "pos-scale",
                           "random-positions",
                           "norm",
                           "norm-pos",
                           "ffn",
                           "residual",
                           "attn-scale",
                           "mask",
                           "length",
                           "symbols",
                           "digits",
                           "modulus",
                           "op",
                           "val-fraction",
                           "attention-interval",
                           "bias",
                           "tie-head",
                           "init",
                           "init-std",
                           "dropout",
                           "attn-dropout",
                           "label-smoothing",
                           "expert-balance",
                           "batch-size",
                           "grad-accum",
                           "gradient-accumulation-steps",
                           "shards",
                           "train-size",
                           "max-iters",
                           "max-steps",
                           "steps",
                           "optimizer",
                           "lr",
                           "learning-rate",
                           "beta1",
                           "beta2",
                           "eps",
                           "momentum",
                           "weight-decay",
                           "grad-clip",
                           "skip-nonfinite",
                           "lr-schedule",
                           "warmup-iters",
                           "lr-decay-iters",
                           "min-lr",
                           "decay-lr",
                           "data",
                           "dataset",
                           "out-dir",
                           "resume",
                           "eval-interval",
                           "eval-iters",
                           "log-interval",
                           "save-interval",
                           "keep-last",
                           "keep-best",
                           "checkpoint-at",
                           "log-heads",
                           "target-accuracy",
                           "target-loss",
                           "time-budget",
                           "dtype",
                           "threads",
                           "profile",
                           "detect-anomaly",
                           "check-nan",
                           "seed",
                           "device",
                           "compile"}) {
    EXPECT_NE(find_option(name), nullptr) << name;
  }
}

TEST(Options, UnderscoresAndAliasesFindTheSameOption) {
  EXPECT_EQ(find_option("n_layer"), find_option("layers"));
  EXPECT_EQ(find_option("gradient_accumulation_steps"), find_option("grad-accum"));
  EXPECT_EQ(find_option("n-leyer"), nullptr);
}

TEST(Options, EveryOptionSaysWhatItMeansAndReadsWhatItWrites) {
  const RunConfig defaults = RunConfig::defaults_for("text");
  for (const Option& option : option_table()) {
    EXPECT_TRUE(option.help.ends_with('.')) << option.name;
    RunConfig config = defaults;
    option.set(config, option.get(defaults));
    EXPECT_EQ(option.get(config), option.get(defaults)) << option.name;
  }
}

TEST(Options, EveryOptionChangesTheConfiguration) {
  const RunConfig defaults = RunConfig::defaults_for("text");
  for (const Option& option : option_table()) {
    if (option.name == "device" || option.name == "compile") continue;
    RunConfig config = defaults;
    option.set(config, other_value(option, defaults));
    EXPECT_NE(option.get(config), option.get(defaults)) << option.name;
  }
}

TEST(Options, NanoGptsCommandForACpuIsTheDefault) {
  RunConfig config = RunConfig::defaults_for("text");
  const std::vector<std::pair<std::string, std::string>> command{
      {"device", "cpu"},          {"compile", "False"},  {"block_size", "64"},
      {"batch_size", "12"},       {"n_layer", "4"},      {"n_head", "4"},
      {"n_embd", "128"},          {"max_iters", "2000"}, {"eval_iters", "20"},
      {"lr_decay_iters", "2000"}, {"dropout", "0.0"}};
  for (const auto& [name, value] : command) find_option(name)->set(config, value);
  EXPECT_EQ(to_toml(config.resolved(), nullptr),
            to_toml(RunConfig::defaults_for("text").resolved(), nullptr));
}

TEST(Options, NumbersThatAreNoneNameTheOptionAndTheValue) {
  EXPECT_EQ(error_of("steps", "28446744073709551616"),
            "--max-iters: '28446744073709551616' is too large");
  EXPECT_EQ(error_of("steps", "-5"), "--max-iters: -5 is outside 0 to 2147483647");
  EXPECT_EQ(error_of("layers", "2.5"), "--n-layer: '2.5' is not a whole number");
  EXPECT_EQ(error_of("max-iters", "1e3"), "--max-iters: '1e3' is not a whole number");
  EXPECT_EQ(error_of("max-iters", "12x"), "--max-iters: '12x' is not a whole number");
  EXPECT_EQ(error_of("seed", ""), "--seed: '' is not a whole number");
  EXPECT_EQ(error_of("lr", "abc"), "--lr: 'abc' is not a finite number");
  EXPECT_EQ(error_of("lr", "1e"), "--lr: '1e' is not a finite number");
  EXPECT_EQ(error_of("lr", "nan"), "--lr: 'nan' is not a finite number");
  EXPECT_EQ(error_of("lr", "inf"), "--lr: 'inf' is not a finite number");
  EXPECT_EQ(error_of("lr", "0,5"), "--lr: '0,5' is not a finite number");
  EXPECT_EQ(error_of("lr", "-1"), "--lr: -1 is not a finite number of at least 0");
  EXPECT_EQ(error_of("min-lr", "-1"), "--min-lr: -1 is below 0");
  EXPECT_EQ(error_of("lr-decay-iters", "-1"), "--lr-decay-iters: -1 is below 0");
  EXPECT_EQ(error_of("attn-dropout", "-1"), "--attn-dropout: -1 is below 0");
  EXPECT_EQ(error_of("bias", "maybe"), "--bias: 'maybe' is neither true nor false");
  EXPECT_EQ(error_of("time-budget", "3 parsecs"),
            "--time-budget: '3 parsecs' is not a time such as 90s, 3m or 1.5h");
  EXPECT_EQ(error_of("activation", "rellu"),
            "--activation: 'rellu' is not one of gelu, gelu_tanh, relu, swiglu; did you mean relu "
            "or gelu?");
}

TEST(Options, OnlyACpuWithoutCompilationIsAccepted) {
  EXPECT_EQ(error_of("device", "cuda"), "--device: 'cuda': only cpu is supported");
  EXPECT_EQ(error_of("compile", "True"),
            "--compile: 'True': there is nothing to compile; leave it out");
}

TEST(Options, LengthIsARangeOrOneNumber) {
  EXPECT_EQ(with("length", "2..9").task.min_length, 2);
  EXPECT_EQ(with("length", "2..9").task.max_length, 9);
  EXPECT_EQ(with("length", "7").task.min_length, 7);
  EXPECT_EQ(with("length", "7").task.max_length, 7);
  for (const char* bad : {"", "..", "1..", "..5", "1...5", "1-5", "a..b", "1..2..3"}) {
    EXPECT_EQ(error_of("length", bad),
              "--length: '" + std::string(bad) + "' is not a range such as 1..12");
  }
}

TEST(Options, AttentionScaleIsAWordOrAPositiveNumber) {
  EXPECT_EQ(with("attn-scale", "sqrt").model.attention_scale, 0);
  EXPECT_EQ(with("attn-scale", "none").model.attention_scale, 1);
  EXPECT_EQ(with("attn-scale", "0.25").model.attention_scale, 0.25);
  EXPECT_EQ(with("attn-temperature", "learned").model.temperature, kLearned);
  EXPECT_EQ(with("attn-temperature", "0.25").model.temperature, 0.25);
  EXPECT_EQ(error_of("attn-scale", "0"), "--attn-scale: '0' is not sqrt, none or a number above 0");
}

TEST(Options, PositionsAreStretchedAndDrawn) {
  EXPECT_EQ(with("pos-scale", "2.5").model.position_scale, 2.5);
  EXPECT_EQ(error_of("pos-scale", "0.5"), "--pos-scale: 0.5 is outside 1 to 1000");
  EXPECT_EQ(with("random-positions", "2048").model.random_positions, 2048);
  EXPECT_EQ(error_of("random-positions", "-1"), "--random-positions: -1 is outside 0 to 1048576");
  EXPECT_EQ(error_of("random-positions", "20"),
            "--random-positions 20 is below --block-size 64: a position is drawn once only");
}

TEST(Options, DecayLrSwitchesToAConstantRate) {
  EXPECT_EQ(with("decay-lr", "False").schedule.shape, "constant");
  EXPECT_EQ(with("decay-lr", "True").schedule.shape, "cosine");
  RunConfig config = with("lr-schedule", "linear");
  find_option("decay-lr")->set(config, "true");
  EXPECT_EQ(config.schedule.shape, "linear");
}

TEST(Options, AblationsAreOnOrNone) {
  EXPECT_FALSE(with("ffn", "none").model.ffn);
  EXPECT_TRUE(with("ffn", "on").model.ffn);
  EXPECT_FALSE(with("residual", "False").model.residual);
}

TEST(Options, TimeBudgetIsInSeconds) {
  EXPECT_EQ(with("time-budget", "3m").time_budget_seconds, 180);
  EXPECT_EQ(with("time-budget", "1.5h").time_budget_seconds, 5400);
}

TEST(Options, ResumingMayChangeLengthIntervalsAndStopConditionsAlone) {
  std::set<std::string> changed;
  for (const std::string& name :
       changed_options(RunConfig::defaults_for("text"), everything_changed())) {
    changed.insert(name);
  }
  const std::set<std::string> free = {
      "--max-iters",      "--eval-interval",  "--log-interval",
      "--save-interval",  "--keep-last",      "--attention-interval",
      "--keep-best",      "--target-loss",    "--target-accuracy",
      "--time-budget",    "--threads",        "--out-dir",
      "--resume",         "--profile",        "--checkpoint-activations",
      "--profile-values", "--detect-anomaly", "--dot",
      "--dot-ops",        "--data",           "--device",
      "--compile",        "--decay-lr",       "--checkpoint-at",
      "--log-heads",      "--log-grads",      "--log-activations",
      "--tensorboard"};
  for (const std::string& name : free) EXPECT_EQ(changed.erase(name), 0u) << name;
  EXPECT_EQ(changed.size(), option_table().size() - free.size());
  EXPECT_TRUE(changed_options(everything_changed(), everything_changed()).empty());
  EXPECT_EQ(changed_options(RunConfig::defaults_for("copy"), RunConfig::defaults_for("sort")),
            std::vector<std::string>{"task"});
}

}  // namespace attune::options_test
