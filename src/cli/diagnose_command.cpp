#include <filesystem>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/observe/diagnosis.h"
#include "attune/train/trainer.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/saved_run.h"

namespace attune::cli {
namespace {

const std::vector<CommandOption>& diagnose_options() {
  static const std::vector<CommandOption> options = {
      {"steps",
       {},
       "Trials",
       "updates of each trial, from a fresh model; 0: try nothing",
       CommandOption::Takes::value,
       "N",
       "100"},
      {"always",
       {},
       "Trials",
       "try them even where nothing is found wrong",
       CommandOption::Takes::nothing},
      {"data",
       {},
       "Run",
       "the text, where it lies elsewhere than in training",
       CommandOption::Takes::value,
       "FILE"},
      {"threads",
       {},
       "Run",
       "0: one for each physical core; the result does not depend on it",
       CommandOption::Takes::value,
       "N",
       "0"},
  };
  return options;
}

// What stands on the screen already must be seen while the rest is computed.
void print_now(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// How the run ended, as far as its directory tells.
std::string status_line(const std::string& run, std::int64_t step) {
  const std::filesystem::path path = std::filesystem::path(run) / "summary.json";
  if (!std::filesystem::exists(path))
    return fmt::format("run: {}, checkpoint of step {}\n", run, step);
  const auto summary = nlohmann::json::parse(read_file(path), nullptr, false);
  const bool has_status =
      summary.is_object() && summary.contains("status") && summary.at("status").is_string();
  if (!has_status) {
    throw IoError(
        fmt::format("{}: has no \"status\", expected the summary of a run", path.string()));
  }
  std::string line = fmt::format("run: {}, checkpoint of step {}, status {}\n", run, step,
                                 printable(summary.at("status").get<std::string>()));
  if (summary.contains("message") && summary.at("message").is_string())
    line += "  " + printable(summary.at("message").get<std::string>()) + "\n";
  return line;
}

// The alarms of the run, a line each.
std::string alarm_lines(const std::string& run) {
  const std::filesystem::path path = std::filesystem::path(run) / "alarms.jsonl";
  if (!std::filesystem::exists(path)) return "";
  std::string lines;
  std::string rest = read_file(path);
  for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
    const auto alarm = nlohmann::json::parse(rest.substr(0, end), nullptr, false);
    if (!alarm.is_object() || !alarm.contains("message") || !alarm.at("message").is_string()) {
      throw IoError(fmt::format("{}: a line is no alarm, expected an object with a \"message\"",
                                path.string()));
    }
    const std::string message = alarm.at("message");
    lines += "  alarm: " + printable(message.substr(0, message.find("; suspects"))) + "\n";
  }
  return lines;
}

void try_all(const RunConfig& config, const Diagnosis& diagnosis, const Task& task,
             std::int64_t steps) {
  const std::vector<Trial> all = trials(config, steps);
  const double seconds =
      diagnosis.step_seconds * static_cast<double>(steps) * static_cast<double>(all.size());
  print_now(
      fmt::format("\ntrying {} beginnings of the run, {} steps each from a fresh model: about {}\n",
                  all.size(), steps, format_duration(seconds)));
  std::vector<TrialResult> results;
  for (const Trial& trial : all) results.push_back(try_out(trial, task));
  print_now(trial_table(all, results) + verdict(diagnosis, all, results) + "\n");
}

}  // namespace

int run_diagnose(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, diagnose_options());
  if (arguments.find("help")) {
    fmt::print("{}",
               render_help(command.usage,
                           "Says why a run does not learn: its loss beside the entropy of single "
                           "tokens, the layer where the gradient dies, attention that is uniform "
                           "or collapsed; then tries warm-up, pre-norm and a smaller rate.",
                           diagnose_options()));
    return kDone;
  }
  if (arguments.positionals.size() != 1) {
    throw ConfigError(
        "diagnose: one run directory is expected, as in 'attune diagnose runs/text-1'");
  }
  const std::int64_t steps = arguments.integer("steps", 0, 1 << 20).value_or(100);
  const std::int64_t threads = arguments.integer("threads", 0, 1024).value_or(0);
  const std::string& path = arguments.positionals.front();
  const SavedRun run(path);
  const std::unique_ptr<Task> task =
      run.task(arguments.find("data") ? *arguments.find("data") : "");
  RunConfig config = run.config();
  config.threads = threads;
  print_now(status_line(path, run.step()) + alarm_lines(path));

  ThreadPool pool(threads > 0 ? static_cast<int>(threads) : ThreadPool::available_cores());
  const Transformer fresh(model_config(config, *task), static_cast<std::uint64_t>(config.seed),
                          config.dtype);
  const Diagnosis diagnosis = diagnose(config, fresh, run.model(), *task, pool);
  print_now("\n" + layer_table(diagnosis) + "\n");
  const std::vector<std::string> lines = findings(diagnosis);
  for (const std::string& line : lines) print_now("- " + line + "\n");
  if (lines.empty()) {
    print_now(fmt::format(
        "nothing is wrong here: loss {:.3f} (single tokens {:.3f}), and the gradient arrives in "
        "every layer\n",
        diagnosis.loss_nats, diagnosis.unigram_entropy));
  }
  if (steps > 0 && (!lines.empty() || arguments.find("always")))
    try_all(config, diagnosis, *task, steps);
  return kDone;
}

}  // namespace attune::cli
