#include <algorithm>
#include <locale>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/train/options.h"
#include "train/changed_options.h"

namespace attune::options_toml_test {

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

TEST(ConfigToml, EveryKeyIsDocumented) {
  const std::string manual = read_file(ATTUNE_SOURCE_DIR "/data/README.md");
  for (const Option& option : option_table()) {
    if (!option.in_config) continue;
    std::string key = option.name;
    std::ranges::replace(key, '-', '_');
    EXPECT_NE(manual.find("`" + key + "`"), std::string::npos) << key;
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

}  // namespace attune::options_toml_test
