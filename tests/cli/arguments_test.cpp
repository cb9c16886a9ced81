#include "cli/arguments.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune::cli::arguments_test {

using Takes = CommandOption::Takes;
using Pairs = std::vector<std::pair<std::string, std::string>>;

std::vector<CommandOption> known_options() {
  std::vector<CommandOption> options =
      command_options(option_table(), RunConfig::defaults_for("text"));
  options.push_back({.name = "config",
                     .aliases = {},
                     .group = "Files",
                     .help = "Read options.",
                     .takes = Takes::value,
                     .value_name = "FILE",
                     .default_value = "",
                     .repeatable = true});
  options.push_back({.name = "json",
                     .aliases = {},
                     .group = "Output",
                     .help = "One object.",
                     .takes = Takes::nothing,
                     .value_name = "",
                     .default_value = "",
                     .repeatable = false});
  return options;
}

Arguments parse(const std::vector<const char*>& words) {
  return parse_arguments(words, known_options());
}

std::string error_of(const std::vector<const char*>& words) {
  try {
    (void)parse(words);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Arguments, ReadBothSpellingsOfNamesAndValues) {
  const Pairs expected{{"n-layer", "4"}};
  EXPECT_EQ(parse({"--n-layer", "4"}).options, expected);
  EXPECT_EQ(parse({"--n-layer=4"}).options, expected);
  EXPECT_EQ(parse({"--n_layer", "4"}).options, expected);
  EXPECT_EQ(parse({"--n_layer=4"}).options, expected);
  EXPECT_EQ(parse({"--layers=4"}).options, expected);
}

TEST(Arguments, KeepTheOrderOfOptionsAndPositionals) {
  const Arguments arguments = parse(
      {"text", "--lr", "0.1", "more", "--config", "a.toml", "--config=b.toml", "--", "--lr", "-x"});
  EXPECT_EQ(arguments.options, (Pairs{{"lr", "0.1"}, {"config", "a.toml"}, {"config", "b.toml"}}));
  EXPECT_EQ(arguments.positionals, (std::vector<std::string>{"text", "more", "--lr", "-x"}));
  ASSERT_NE(arguments.find("lr"), nullptr);
  EXPECT_EQ(*arguments.find("lr"), "0.1");
  EXPECT_EQ(arguments.find("beta1"), nullptr);
}

TEST(Arguments, RunNanoGptsCommandUnchanged) {
  const Arguments arguments =
      parse({"text", "--data", "input.txt", "--device=cpu", "--compile=False", "--eval_iters=20",
             "--log_interval=1", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
             "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0"});
  EXPECT_EQ(arguments.options.size(), 13u);
  RunConfig config = RunConfig::defaults_for("text");
  for (const auto& [name, value] : arguments.options) find_option(name)->set(config, value);
  EXPECT_EQ(config.resolved().schedule.decay_iters, 2000);
}

TEST(Arguments, ValuesMayBeNegativeEmptyOrOdd) {
  EXPECT_EQ(parse({"--lr", "-1"}).options, (Pairs{{"lr", "-1"}}));
  EXPECT_EQ(parse({"--lr=-1e-3"}).options, (Pairs{{"lr", "-1e-3"}}));
  EXPECT_EQ(parse({"--seed", ""}).options, (Pairs{{"seed", ""}}));
  EXPECT_EQ(parse({"--seed="}).options, (Pairs{{"seed", ""}}));
  EXPECT_EQ(parse({"--data=a=b --c\nd"}).options, (Pairs{{"data", "a=b --c\nd"}}));
  EXPECT_EQ(parse({"--out_dir=--resume"}).options, (Pairs{{"out-dir", "--resume"}}));
  EXPECT_EQ(parse({"--out_dir=my_run"}).options, (Pairs{{"out-dir", "my_run"}}));
}

TEST(Arguments, VeryLongValuesAreRead) {
  const std::string value(2'000'000, 'x');
  const std::string joined = "--data=" + value;
  EXPECT_EQ(parse({joined.c_str()}).options, (Pairs{{"data", value}}));
}

TEST(Arguments, BooleansTakeAnOptionalValue) {
  EXPECT_EQ(parse({"--bias"}).options, (Pairs{{"bias", "true"}}));
  EXPECT_EQ(parse({"--bias=True"}).options, (Pairs{{"bias", "True"}}));
  EXPECT_EQ(parse({"--bias", "False"}).options, (Pairs{{"bias", "False"}}));
  EXPECT_EQ(parse({"--no-bias"}).options, (Pairs{{"bias", "false"}}));
  EXPECT_EQ(parse({"--no_bias"}).options, (Pairs{{"bias", "false"}}));
  const Arguments arguments = parse({"--resume", "text", "--bias", "--lr", "1"});
  EXPECT_EQ(arguments.options, (Pairs{{"resume", "true"}, {"bias", "true"}, {"lr", "1"}}));
  EXPECT_EQ(arguments.positionals, std::vector<std::string>{"text"});
}

TEST(Arguments, AnImpliedValueLeavesTheNextWordAlone) {
  EXPECT_EQ(parse({"--profile"}).options, (Pairs{{"profile", "op"}}));
  EXPECT_EQ(parse({"--profile=module"}).options, (Pairs{{"profile", "module"}}));
  const Arguments arguments = parse({"--profile", "module"});
  EXPECT_EQ(arguments.options, (Pairs{{"profile", "op"}}));
  EXPECT_EQ(arguments.positionals, std::vector<std::string>{"module"});
}

TEST(Arguments, HelpIsAlwaysKnown) {
  EXPECT_EQ(parse({"-h"}).options, (Pairs{{"help", "true"}}));
  EXPECT_EQ(parse({"--help", "text"}).options, (Pairs{{"help", "true"}}));
  EXPECT_EQ(parse({"--help", "text"}).positionals, std::vector<std::string>{"text"});
}

TEST(Arguments, MistakesNameTheOption) {
  EXPECT_EQ(error_of({"--n-leyer", "4"}), "unknown option --n-leyer; did you mean --n-layer?");
  EXPECT_EQ(error_of({"--qqqqqqqqqqqq=4"}), "unknown option --qqqqqqqqqqqq");
  EXPECT_EQ(error_of({"--no-lr"}).substr(0, 22), "unknown option --no-lr");
  EXPECT_EQ(error_of({"-x"}), "unknown option -x; options start with --");
  EXPECT_EQ(error_of({"--lr"}), "--lr needs a value (X)");
  EXPECT_EQ(
      error_of({"--out-dir", "--resume"}),
      "--out-dir needs a value (DIR), but --resume follows; write --out-dir=--resume if it is "
      "meant");
  EXPECT_EQ(error_of({"--json=1"}), "--json takes no value, but '1' is given");
  EXPECT_EQ(error_of({"--no-bias=1"}), "--no-bias takes no value, but '1' is given");
  EXPECT_EQ(error_of({"--lr", "1", "--lr=2"}), "--lr is given twice");
  EXPECT_EQ(error_of({"--n_layer", "1", "--layers=2"}),
            "--layers is given twice, also as --n_layer");
  EXPECT_EQ(error_of({"--bias", "--no-bias"}), "--no-bias is given twice, also as --bias");
}

TEST(Help, StaysWithinItsColumnsAndNamesEveryOption) {
  const std::vector<CommandOption> options = known_options();
  const std::string help = render_help("attune train TASK [options]", "Train a model.", options);
  EXPECT_TRUE(help.starts_with("Usage: attune train TASK [options]\n\nTrain a model.\n\nData\n"));
  for (const CommandOption& option : options) {
    EXPECT_NE(help.find("\n  --" + option.name), std::string::npos) << option.name;
  }
  std::size_t begin = 0;
  while (begin < help.size()) {
    const std::size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 100u) << help.substr(begin, end - begin);
    EXPECT_NE(help[end - 1], ' ') << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(Help, ShowsMeaningDefaultAndAliases) {
  const std::vector<CommandOption> options{{.name = "n-layer",
                                            .aliases = {"layers", "depth"},
                                            .group = "Model",
                                            .help = "Transformer blocks.",
                                            .takes = Takes::value,
                                            .value_name = "N",
                                            .default_value = "4",
                                            .repeatable = false},
                                           {.name = "norm",
                                            .aliases = {},
                                            .group = "Model",
                                            .help = "Normalisation.",
                                            .takes = Takes::value,
                                            .value_name = "layernorm|rmsnorm|none",
                                            .default_value = "layernorm",
                                            .repeatable = false}};
  EXPECT_EQ(
      render_help("attune train", "Train.", options),
      "Usage: attune train\n"
      "\n"
      "Train.\n"
      "\n"
      "Model\n"
      "  --n-layer N                   Transformer blocks. (default 4; also --layers, --depth)\n"
      "  --norm layernorm|rmsnorm|none\n"
      "                                Normalisation. (default layernorm)\n"
      "\n"
      "Other\n"
      "  --help                        Show this text.\n");
}

}  // namespace attune::cli::arguments_test
