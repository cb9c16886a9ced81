#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/model/transformer.h"
#include "attune/observe/gradcheck_suite.h"
#include "attune/ops/arithmetic.h"
#include "attune/task/task.h"
#include "attune/train/options.h"
#include "attune/train/trainer.h"
#include "cli/arguments.h"
#include "cli/command.h"

namespace attune::cli {
namespace {

// A batch of this many examples reaches every kind of token; more would cost time and add kinks.
constexpr std::int64_t kExamples = 2;

// The options that decide what a model computes; how it is trained does not matter here.
bool concerns_model(const Option& option) {
  return option.group == "Data" || option.group == "Model" || option.group == "Attention" ||
         option.name == "label-smoothing" || option.name == "seed";
}

std::vector<CommandOption> gradcheck_options(const RunConfig& defaults) {
  std::vector<CommandOption> options = {
      {.name = "only",
       .aliases = {},
       .group = "Checks",
       .help = "check only what has this in its name, such as softmax; with a TASK: in the name of "
               "a parameter",
       .value_name = "NAME"},
      {.name = "tolerance",
       .aliases = {},
       .group = "Checks",
       .help = "largest difference from finite differences, relative to the largest gradient",
       .value_name = "X",
       .default_value = "1e-6"},
  };
  std::vector<Option> table;
  std::copy_if(option_table().begin(), option_table().end(), std::back_inserter(table),
               concerns_model);
  const std::vector<CommandOption> shared = command_options(table, defaults);
  options.insert(options.end(), shared.begin(), shared.end());
  return options;
}

double tolerance_of(const Arguments& arguments) {
  const std::string* text = arguments.find("tolerance");
  if (text == nullptr) return 1e-6;
  const std::optional<double> value = parse_float(*text);
  if (!value || !std::isfinite(*value) || *value <= 0) {
    throw ConfigError(fmt::format("--tolerance: '{}' is not a number above 0", *text));
  }
  return *value;
}

// Suggests from the words of the names: --only takes a part of a name.
void require_match(const std::string& only, const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    if (name.find(only) != std::string::npos) return;
    for (std::size_t begin = 0; begin < name.size();) {
      const std::size_t end = std::min(name.find_first_of(" .,", begin), name.size());
      words.push_back(name.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  throw ConfigError(
      fmt::format("--only: nothing has '{}' in its name{}", only, did_you_mean(only, words)));
}

GradcheckReport check_library(const std::string& only, double tolerance) {
  std::vector<GradcheckCase> cases = gradcheck_cases();
  std::vector<GradcheckCase> chosen;
  std::vector<std::string> names;
  for (GradcheckCase& one : cases) {
    names.push_back(one.name);
    if (one.name.find(only) != std::string::npos) chosen.push_back(std::move(one));
  }
  require_match(only, names);
  return run_gradcheck(chosen, tolerance);
}

RunConfig configuration(const Arguments& arguments) {
  RunConfig config = RunConfig::defaults_for(arguments.positionals.front());
  for (const auto& [name, value] : arguments.options) {
    if (const Option* option = find_option(name)) option->set(config, value);
  }
  return config.resolved();
}

GradcheckReport check_model(const RunConfig& config, const std::string& only, double tolerance) {
  const std::unique_ptr<Task> task = make_task(config.task);
  const auto seed = static_cast<std::uint64_t>(config.seed);
  Transformer model(model_config(config, *task), seed, DType::float64);
  spread_parameters(model.parameters(), seed);
  const Batch batch =
      BatchSource(*task, seed, config.train_size).evaluation(Split::train, 0, kExamples);

  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters()) names.push_back(parameter.name());
  require_match(only, names);

  Pass pass;
  pass.training = true;
  pass.random = {seed, 0};
  const auto loss = [&](const Pass& run) {
    const CrossEntropy result = model.loss({batch.tokens, batch.examples, batch.time},
                                           batch.targets, run, config.label_smoothing);
    return multiply(result.loss_sum, 1 / std::max(1.0, static_cast<double>(result.scored)));
  };
  fmt::print("{}: {} parameters in float64, {} examples of {} tokens\n", task->name(),
             format_count(model.parameters().elements()), batch.examples, batch.time);
  return gradcheck_parameters(model.parameters(), loss, pass,
                              {.tolerance = tolerance, .seed = seed, .only = only});
}

// An option of a model without a model to apply it to would be ignored in silence.
void refuse_model_options(const Arguments& arguments) {
  for (const auto& [name, value] : arguments.options) {
    if (find_option(name) != nullptr) {
      throw ConfigError(fmt::format("--{}: needs a task, as in 'attune gradcheck copy --{} {}'",
                                    name, name, value));
    }
  }
}

}  // namespace

int run_gradcheck(const Command& command, Words words) {
  const Arguments arguments =
      parse_arguments(words, gradcheck_options(RunConfig::defaults_for("copy")));
  if (arguments.find("help")) {
    const std::string task = arguments.positionals.empty() ? "copy" : arguments.positionals.front();
    fmt::print("{}", render_help(command.usage,
                                 "Checks every function, layer and small models, or with a TASK "
                                 "the model that 'attune train TASK' would train, against finite "
                                 "differences in float64. Exit code 1: a gradient is wrong. "
                                 "Defaults shown are those of " +
                                     task + ".",
                                 gradcheck_options(RunConfig::defaults_for(task))));
    return kDone;
  }
  if (arguments.positionals.size() > 1) {
    throw ConfigError(fmt::format("gradcheck: one task at most was expected, not also '{}'",
                                  arguments.positionals[1]));
  }
  const double tolerance = tolerance_of(arguments);
  const std::string* only = arguments.find("only");
  const std::string wanted = only ? *only : "";
  GradcheckReport report;
  if (arguments.positionals.empty()) {
    refuse_model_options(arguments);
    report = check_library(wanted, tolerance);
  } else {
    report = check_model(configuration(arguments), wanted, tolerance);
  }
  fmt::print("{}", to_text(report));
  return report.passed() ? kDone : kFailed;
}

}  // namespace attune::cli
