#include "attune/train/options.h"

#include <locale>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune {
namespace {

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

// A value other than the default of every option, as it is written.
std::string other_value(const Option& option, const RunConfig& defaults) {
  static const std::map<std::string, std::string> kSpecial{
      {"length", "3..17"},     {"attn-scale", "0.37"}, {"attn-temperature", "1.7"},
      {"attn-dropout", "0.4"}, {"min-lr", "0.00012"},  {"device", "cpu"},
      {"compile", "false"},    {"decay-lr", "false"},  {"dropout", "0.1"}};
  if (const auto found = kSpecial.find(option.name); found != kSpecial.end()) return found->second;
  const std::string value = option.get(defaults);
  switch (option.kind) {
    case Option::Kind::integer:
      return value == "auto" ? "77" : std::to_string(std::stoll(value) + 3);
    case Option::Kind::number:
      return "0.30000000000000004";
    case Option::Kind::boolean:
      return value == "true" ? "false" : "true";
    case Option::Kind::choice:
      return option.choices.back() == value ? option.choices.front() : option.choices.back();
    case Option::Kind::text:
      return "a \"quoted\" \\ word\twith a tab";
    case Option::Kind::duration:
      return "90.5s";
  }
  return "";
}

RunConfig everything_changed() {
  RunConfig config = RunConfig::defaults_for("text");
  for (const Option& option : option_table()) {
    // --decay-lr writes what --lr-schedule holds.
    if (option.name != "decay-lr") option.set(config, other_value(option, config));
  }
  return config;
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
                           "target-accuracy",
                           "target-loss",
                           "time-budget",
                           "dtype",
                           "threads",
                           "profile",
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
  for (const char* free :
       {"--max-iters", "--eval-interval", "--log-interval", "--attention-interval",
        "--save-interval", "--keep-last", "--keep-best", "--target-accuracy", "--target-loss",
        "--time-budget", "--threads", "--out-dir", "--resume", "--profile",
        "--checkpoint-activations", "--data", "--device", "--compile", "--decay-lr"}) {
    EXPECT_EQ(changed.erase(free), 0u) << free;
  }
  EXPECT_EQ(changed.size(), option_table().size() - 19);
  EXPECT_TRUE(changed_options(everything_changed(), everything_changed()).empty());
  EXPECT_EQ(changed_options(RunConfig::defaults_for("copy"), RunConfig::defaults_for("sort")),
            std::vector<std::string>{"task"});
}

TEST(ConfigToml, RoundTripGivesTheSameConfiguration) {
  const RunConfig written = everything_changed();
  const std::string toml = to_toml(written, nullptr);
  RunConfig read = RunConfig::defaults_for("text");
  apply_toml(read, toml, "config.toml");
  for (const Option& option : option_table()) {
    if (option.in_config) {
      EXPECT_EQ(option.get(read), option.get(written)) << option.name;
    }
  }
  EXPECT_EQ(to_toml(read, nullptr), toml);
  EXPECT_EQ(read.task.block_size, written.task.block_size);
}

TEST(ConfigToml, RoundTripOfResolvedAndUnresolvedDefaults) {
  for (const TaskInfo& task : list_tasks()) {
    for (const bool resolve : {false, true}) {
      RunConfig written = RunConfig::defaults_for(task.name);
      if (resolve) written = written.resolved();
      RunConfig read = everything_changed();
      apply_toml(read, to_toml(written, nullptr), "config.toml");
      EXPECT_EQ(read.task.name, task.name);
      EXPECT_TRUE(changed_options(written, read).empty()) << task.name;
      EXPECT_EQ(read.schedule.min_lr, written.schedule.min_lr);
      EXPECT_EQ(read.schedule.decay_iters, written.schedule.decay_iters);
      EXPECT_EQ(read.model.attention_dropout, written.model.attention_dropout);
    }
  }
}

TEST(ConfigToml, LeavesOutWhereARunHappens) {
  const std::string toml = to_toml(everything_changed(), nullptr);
  for (const char* key :
       {"threads", "out_dir", "resume", "profile", "device", "compile", "decay_lr"}) {
    EXPECT_EQ(toml.find(std::string("\n") + key + " "), std::string::npos) << key;
  }
  EXPECT_NE(toml.find("\nn_layer = 7\n"), std::string::npos);
}

TEST(ConfigToml, HoldsTheIdentityOfTheDataFile) {
  const DataFile file{"/somewhere/else.txt", 1115394, std::string(64, 'a')};
  RunConfig config = RunConfig::defaults_for("text");
  config.task.data = "else.txt";
  const std::string toml = to_toml(config, &file);
  DataFile found;
  RunConfig read = RunConfig::defaults_for("text");
  apply_toml(read, toml, "config.toml", &found);
  EXPECT_EQ(read.task.data, "/somewhere/else.txt");
  EXPECT_EQ(found.path, "/somewhere/else.txt");
  EXPECT_EQ(found.bytes, 1115394);
  EXPECT_EQ(found.sha256, std::string(64, 'a'));
  EXPECT_EQ(task_in_toml(toml, "config.toml"), "text");
}

TEST(ConfigToml, PeopleMayWriteFlatKeysAndAliases) {
  RunConfig config = RunConfig::defaults_for("copy");
  apply_toml(config,
             "layers = 3\nd-model = 48\nlearning_rate = 1\nbias = true\nlength = 5\n"
             "time-budget = \"2m\"\nresidual = false\n[training]\nsteps = 10\nlr-schedule = "
             "\"linear\"\n",
             "mine.toml");
  EXPECT_EQ(config.model.n_layer, 3);
  EXPECT_EQ(config.model.n_embd, 48);
  EXPECT_EQ(config.schedule.lr, 1);
  EXPECT_TRUE(config.model.bias);
  EXPECT_EQ(config.task.max_length, 5);
  EXPECT_EQ(config.time_budget_seconds, 120);
  EXPECT_FALSE(config.model.residual);
  EXPECT_EQ(config.max_iters, 10);
  EXPECT_EQ(config.schedule.shape, "linear");
  EXPECT_EQ(task_in_toml("n_layer = 3", "mine.toml"), "");
}

TEST(ConfigToml, ErrorsNameFileAndKey) {
  const auto error = [](const std::string& toml) -> std::string {
    RunConfig config = RunConfig::defaults_for("copy");
    try {
      apply_toml(config, toml, "mine.toml");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error("n_leyer = 3"), "mine.toml: n_leyer is not an option; did you mean n_layer?");
  EXPECT_EQ(
      error("[modell]\nn_layer = 3"),
      "mine.toml: [modell] is not a table of options; did you mean model? (known: data, model, "
      "attention, mask, training, optimizer, schedule, logging, stopping, run)");
  EXPECT_EQ(error("n_layer = \"two\""), "mine.toml: n_layer: 'two' is not a whole number");
  EXPECT_EQ(error("layers = 1e3"), "mine.toml: layers: 1000 is not written as a whole number");
  EXPECT_EQ(error("lr = nan"), "mine.toml: lr: 'nan' is not a finite number");
  EXPECT_EQ(error("lr = [1, 2]"), "mine.toml: lr: expected a string, a number, true or false");
  EXPECT_EQ(error("layers = 2\nn_layer = 3"), "mine.toml: n_layer: given twice, also as layers");
  EXPECT_EQ(error("n_layer = 2\n[model]\nn_layer = 3"), "mine.toml: n_layer: given twice");
  EXPECT_EQ(error("task = 3"), "mine.toml: task: expected a string");
  EXPECT_EQ(error("[data]\nbytes = -1"), "mine.toml: bytes: expected a whole number of at least 0");
  EXPECT_TRUE(error("n_layer = 3\nn_head = = 4").starts_with("mine.toml: line 2, column "))
      << error("n_layer = 3\nn_head = = 4");
}

TEST(ConfigToml, RefusesWhatIsFarTooLongForAConfiguration) {
  RunConfig config = RunConfig::defaults_for("copy");
  std::string toml = "n_layer = 3\n#";
  toml.resize(65536, 'x');
  apply_toml(config, toml, "mine.toml");
  EXPECT_EQ(config.model.n_layer, 3);
  for (const auto& read : {+[](const std::string& text) { task_in_toml(text, "mine.toml").size(); },
                           +[](const std::string& text) {
                             RunConfig other = RunConfig::defaults_for("copy");
                             apply_toml(other, text, "mine.toml");
                           }}) {
    try {
      read(toml + "x");
      ADD_FAILURE() << "read";
    } catch (const ConfigError& error) {
      EXPECT_STREQ(error.what(),
                   "mine.toml: 65537 bytes, expected at most 65536 of a configuration");
    }
  }
}

// toml++ 3.3 does something undefined with many of them wherever it looks for a blank.
TEST(ConfigToml, CharactersBeyondAsciiNeverReachTheParser) {
  const std::string wide =
      "\xc2\xa1\xc3\xa9\xd0\x96\xef\xac\xa6\xef\xb8\x8f\xef\xbb\xbf\xf0\x9f\x98\x80";
  RunConfig config = RunConfig::defaults_for("copy");
  config.task.data = "a" + wide + "\"";
  RunConfig read = RunConfig::defaults_for("copy");
  apply_toml(read, to_toml(config, nullptr) + "# " + wide, "mine.toml");
  EXPECT_EQ(read.task.data, config.task.data);
  apply_toml(read,
             "\xef\xbb\xbf"
             "data = '" +
                 wide + "' # " + wide,
             "mine.toml");
  EXPECT_EQ(read.task.data, wide);

  const auto error = [](const std::string& toml) -> std::string {
    RunConfig other = RunConfig::defaults_for("copy");
    try {
      apply_toml(other, toml, "mine.toml");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error("'\xc3\xa9' = 1"), "mine.toml: \xc3\xa9 is not an option");
  EXPECT_TRUE(error("lr = 1\n\xc3\xa9 = 1").starts_with("mine.toml: line 2, column 1: "));
  EXPECT_NE(error("\xc3\xa9 = 1").find("'\xc3\xa9'"), std::string::npos) << error("\xc3\xa9 = 1");
  for (const char* malformed : {"lr = 1'\xc3\xa9", "lr =0915-='\xef\xbb\xbb",
                                "lr = \xc2\xa0"
                                "1",
                                "\xef\xac\xa6"}) {
    EXPECT_NE(error(malformed), "") << malformed;
  }
  EXPECT_EQ(error("lr = 1\n# \xc3"), "mine.toml: not UTF-8 at byte 9");
  const char* plane_15 = "mine.toml: line 1, column 9: characters of plane 15 are for private use";
  EXPECT_EQ(error("data = '\xf3\xb0\x83\xa9'"), plane_15);
  EXPECT_EQ(error("data = \"\\U000F00e9\""), plane_15);
  config.task.data = "\xf3\xb0\x83\xa9";
  EXPECT_THROW(static_cast<void>(to_toml(config, nullptr)), ConfigError);
}

TEST(ConfigToml, WhatIsNoKeyAndNoValueIsAnError) {  // toml++ asserted that it never meets them
  for (const char* toml : {"[=]",
                           "[\x07"
                           "a]",
                           "[[,]]", "a = \x01", "a = _", "[", "a ="}) {
    RunConfig config = RunConfig::defaults_for("copy");
    EXPECT_THROW(apply_toml(config, toml, "mine.toml"), ConfigError) << toml;
  }
}

// A key of half a million parts ended the process: taking its tables down needed a frame for each.
TEST(ConfigToml, TheDeepestKeyIsAnError) {
  for (const std::size_t parts : {1001, 32760, 500000}) {
    std::string toml = "a";
    for (std::size_t i = 1; i < parts; ++i) toml += ".a";
    RunConfig config = RunConfig::defaults_for("copy");
    EXPECT_THROW(apply_toml(config, toml + " = 1", "mine.toml"), ConfigError);
    EXPECT_THROW(apply_toml(config, "[" + toml + "]", "mine.toml"), ConfigError);
  }
}

struct CommaPunctuation final : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(ConfigToml, DoesNotDependOnTheLocale) {  // B45
  const std::string expected = to_toml(everything_changed(), nullptr);
  const std::locale previous =
      std::locale::global(std::locale(std::locale::classic(), new CommaPunctuation));
  RunConfig read = RunConfig::defaults_for("text");
  apply_toml(read, expected, "config.toml");
  const std::string written = to_toml(read, nullptr);
  find_option("lr")->set(read, "0.5");
  std::locale::global(previous);
  EXPECT_EQ(written, expected);
  EXPECT_EQ(read.schedule.lr, 0.5);
}

}  // namespace
}  // namespace attune
