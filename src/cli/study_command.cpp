#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/core/thread_pool.h"
#include "cli/command.h"
#include "cli/study.h"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostSeeds = 1000;

std::vector<CommandOption> study_options(const Study& study, const std::string& task) {
  std::vector<CommandOption> options = study.options;
  for (CommandOption& option : options) option.group = "Study";
  options.push_back({.name = "seeds",
                     .aliases = {},
                     .group = "Study",
                     .help =
                         "how many seeds each grid point is measured with, from --seed on; more "
                         "narrow the interval",
                     .value_name = "N",
                     .default_value = std::to_string(study.seeds)});
  const std::vector<Option> table = grid_options(study);
  std::vector<CommandOption> shared = command_options(table, RunConfig::defaults_for(task));
  for (CommandOption& option : shared) {
    for (const auto& [name, value] : study.defaults) {
      if (option.name == name) option.default_value = value;
    }
    if (option.name == "seed") option.help = "The first seed; of weights and batches.";
  }
  options.insert(options.end(), shared.begin(), shared.end());
  options.push_back({.name = "out-dir",
                     .aliases = {},
                     .group = "Output",
                     .help = "where lines and picture go; default: studies/NAME-NUMBER",
                     .value_name = "DIR"});
  options.push_back({.name = "threads",
                     .aliases = {},
                     .group = "Output",
                     .help = "measurements at a time; 0: one for each physical core; the result "
                             "does not depend on it",
                     .value_name = "N",
                     .default_value = "0"});
  return options;
}

const Study& find_study(const std::string& name) {
  std::vector<std::string> names;
  for (const Study& study : studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw ConfigError(fmt::format("study '{}' is unknown{} ({})", name, did_you_mean(name, names),
                                fmt::join(names, ", ")));
}

void print_studies(const Command& command) {
  fmt::print(
      "Usage: {}\n\nMeasures models before or in the first steps of training. Options given as "
      "lists span a\ngrid, each point of which is measured with several seeds:\n\n"
      "  attune study gradients --n-layer 8,16,32 --init xavier,gpt2 --norm-pos pre,post\n\n"
      "Prints a table with 95 % intervals, writes all numbers as JSON lines and a picture.\n\n",
      command.usage);
  for (const Study& study : studies()) fmt::print("  {:<10} {}\n", study.name, study.summary);
  fmt::print("\n  attune study NAME --help    what a study measures, and its options\n");
}

fs::path make_directory(const std::string* given, const std::string& name) {
  if (given == nullptr) return make_numbered_directory("study directory", "studies", name);
  std::error_code error;
  fs::create_directories(*given, error);
  if (error || !fs::is_directory(*given))
    throw IoError(
        fmt::format("--out-dir: '{}': {}", *given, error ? error.message() : "is not a directory"));
  return *given;
}

// Before anything is measured.
void refuse_earlier_results(const std::string* directory, const std::string& name) {
  if (directory == nullptr) return;
  for (const char* extension : {".jsonl", ".svg"}) {
    const fs::path file = fs::path(*directory) / (name + extension);
    if (fs::exists(fs::symlink_status(file)))
      throw ConfigError(
          fmt::format("--out-dir: '{}' is there already; nothing is overwritten", file.string()));
  }
}

StudyResult measure(const Study& study, const Grid& grid, const Arguments& arguments,
                    std::int64_t seeds, int threads) {
  StudyResult result{study, grid, grid.points.front().config.seed, seeds, {}};
  if (result.first_seed > std::numeric_limits<std::int64_t>::max() - seeds)
    throw ConfigError(
        fmt::format("--seed: {} leaves no room for {} seeds", result.first_seed, seeds));
  result.measured.resize(grid.points.size() * static_cast<std::size_t>(seeds));
  ThreadPool pool(threads);
  std::atomic<bool> failed = false;
  pool.run(static_cast<int>(result.measured.size()), [&](int i) {
    if (failed) return;
    const auto index = static_cast<std::size_t>(i);
    const GridPoint& point = grid.points[index / static_cast<std::size_t>(seeds)];
    RunConfig config = point.config;
    config.seed += i % seeds;
    try {
      result.measured[index] = study.measure({config, *point.task, arguments});
    } catch (...) {
      failed = true;
      throw;
    }
  });
  return result;
}

// What the grid does not vary, in short.
std::string headline(const StudyResult& result, double seconds) {
  const RunConfig& config = result.grid.points.front().config;
  const Task& task = *result.grid.points.front().task;
  std::string line = result.study.name;
  if (result.study.only.empty()) line += fmt::format(": {}", task.name());
  const auto is_axis = [&](std::string_view option) {
    return std::ranges::any_of(result.grid.axes,
                               [&](const Grid::Axis& axis) { return axis.option == option; });
  };
  for (const char* name : {"n-layer", "n-head", "n-embd", "init", "norm-pos", "pos", "mask",
                           "residual", "ffn", "dtype"}) {
    const auto taken = grid_options(result.study);
    const bool is_taken =
        std::ranges::any_of(taken, [&](const Option& option) { return option.name == name; });
    if (is_taken && !is_axis(name))
      line += fmt::format(", {} {}", name, find_option(name)->get(config));
  }
  return fmt::format("{}\n{} grid points x {} seeds in {}, 95 % intervals by Student's t\n\n", line,
                     result.grid.points.size(), result.seeds, format_duration(seconds));
}

int report(const StudyResult& result, const Arguments& arguments, Words words, double seconds) {
  fmt::print("{}{}", headline(result, seconds), study_text(result));
  const std::string& name = result.study.name;
  const fs::path directory = make_directory(arguments.find("out-dir"), name);
  write_study_lines(result, command_line("study", words), directory / (name + ".jsonl"));
  fmt::print("written: {}\n", (directory / (name + ".jsonl")).string());
  try {
    draw_study(result, directory / (name + ".svg"));
    fmt::print("drawn:   {}\n", (directory / (name + ".svg")).string());
  } catch (const IoError& error) {
    print_error(error.what());
  }
  return kDone;
}

}  // namespace

const std::vector<Study>& studies() {
  static const std::vector<Study> all = [] {
    std::vector<Study> list = studies_of_initialisation();
    for (Study& study : studies_of_training()) list.push_back(std::move(study));
    return list;
  }();
  return all;
}

int run_study(const Command& command, Words words) {
  const std::string first = words.empty() ? "--help" : words.front();
  if (first == "--help" || first == "-h") {
    print_studies(command);
    return words.empty() ? kUsage : kDone;
  }
  const Study& study = find_study(first);
  const Arguments arguments = parse_arguments(words.subspan(1), study_options(study, study.task));
  if (arguments.positionals.size() > 1)
    throw ConfigError(
        fmt::format("study: one task was expected, not also '{}'", arguments.positionals[1]));
  const std::string task = !arguments.positionals.empty() ? arguments.positionals.front()
                           : arguments.find("data")       ? "text"
                                                          : study.task;
  if (arguments.find("help")) {
    fmt::print("{}", render_help(fmt::format("attune study {} [TASK] [options]", study.name),
                                 study.description +
                                     " Options of model and data may be lists, as in --n-layer "
                                     "4,8: they span a grid. Defaults shown are those of " +
                                     task + ".",
                                 study_options(study, task)));
    return kDone;
  }
  const std::int64_t seeds = arguments.integer("seeds", 1, kMostSeeds).value_or(study.seeds);
  const std::int64_t threads = arguments.integer("threads", 0, 1024).value_or(0);
  refuse_earlier_results(arguments.find("out-dir"), study.name);
  const Grid grid = make_grid(study, task, arguments);
  const auto begin = std::chrono::steady_clock::now();
  const StudyResult result =
      measure(study, grid, arguments, seeds,
              threads > 0 ? static_cast<int>(threads) : ThreadPool::available_cores());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return report(result, arguments, words, took.count());
}

}  // namespace attune::cli
