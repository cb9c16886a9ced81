#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/observe/doctor.h"
#include "attune/train/options.h"
#include "attune/train/trainer.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/run_request.h"

namespace attune::cli {
namespace {

std::vector<CommandOption> doctor_options(const RunConfig& defaults) {
  std::vector<CommandOption> options = {
      {.name = "doctor-time",
       .aliases = {},
       .group = "Examination",
       .help = "about how long all checks may take, as in 10s; large models are checked on fewer "
               "examples, shorter texts and fewer steps",
       .value_name = "TIME",
       .default_value = "10s"},
  };
  const std::vector<CommandOption> shared = command_options(option_table(), defaults);
  options.insert(options.end(), shared.begin(), shared.end());
  options.push_back(config_option());
  return options;
}

double time_of(const Arguments& arguments) {
  const std::string* text = arguments.find("doctor-time");
  if (text == nullptr) return 10;
  const std::optional<double> seconds = parse_duration(*text);
  if (!seconds || *seconds <= 0)
    throw ConfigError(fmt::format("--doctor-time: '{}' is no time above 0, as 10s or 1m", *text));
  return *seconds;
}

void print_doctor_help(const Command& command, const std::string& task) {
  fmt::print("{}", render_help(command.usage,
                               "Checks the model and the training that 'attune train TASK' would "
                               "begin, with the same options: initial loss, gradients, causality, "
                               "independence of examples, learning, gradient arithmetic, "
                               "checkpoints, threads. Exit code 1: a check failed. Writes nothing. "
                               "Defaults shown are those of " +
                                   task + ".",
                               doctor_options(RunConfig::defaults_for(task))));
}

}  // namespace

int run_doctor(const Command& command, Words words) {
  const RunRequest request =
      read_run_request("doctor", words, doctor_options(RunConfig::defaults_for("text")));
  if (request.arguments.find("help")) {
    print_doctor_help(command, request.task.empty() ? "text" : request.task);
    return kDone;
  }
  if (request.task.empty())
    throw ConfigError(
        "doctor: a task is missing, as in 'attune doctor copy'; see 'attune list tasks'");
  const double seconds = time_of(request.arguments);
  RunConfig config = RunConfig::defaults_for(request.task);
  apply(request, config);
  config = config.resolved();
  const std::unique_ptr<Task> task = make_task(config.task);
  config.model = model_config(config, *task);

  const DoctorSubject subject = doctor_subject(config, *task);
  const auto model = subject.make_model(static_cast<std::uint64_t>(config.seed), config.dtype);
  fmt::print("{}: {} parameters, vocabulary {}, context {}\n", task->name(),
             format_count(model->parameters().elements()), config.model.vocabulary,
             config.model.block_size);
  std::fflush(stdout);
  const DoctorReport report = attune::run_doctor(subject, {seconds});
  fmt::print("{}", to_text(report));
  return report.passed() ? kDone : kFailed;
}

}  // namespace attune::cli
