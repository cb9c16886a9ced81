#include <filesystem>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/thread_pool.h"
#include "attune/observe/anomaly_file.h"
#include "attune/observe/replay.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/saved_run.h"

namespace attune::cli {
namespace {

std::filesystem::path step_file(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return path;
  const std::filesystem::path file = std::filesystem::path(path) / "anomaly.safetensors";
  if (!std::filesystem::exists(path)) throw IoError(fmt::format("{}: there is no such run", path));
  if (!std::filesystem::exists(file)) {
    throw IoError(fmt::format(
        "{}: holds no anomaly.safetensors; a run that stops with --detect-anomaly leaves one",
        path));
  }
  return file;
}

}  // namespace

int run_replay(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, {});
  if (arguments.find("help")) {
    fmt::print("{}", render_help(command.usage,
                                 "Runs the step again at which 'attune train --detect-anomaly' "
                                 "stopped, in the precision of the run and in float64, with the "
                                 "same batch, weights and dropout, and tells whether float32 "
                                 "overflowed. Exit code 1: not finite in float64 either.",
                                 {}));
    return kDone;
  }
  if (arguments.positionals.size() != 1)
    throw ConfigError("replay: one run directory is expected, as in 'attune replay runs/copy-1'");
  const std::filesystem::path file = step_file(arguments.positionals.front());
  const SavedStep step = load_step(file);
  DataFile data;
  const RunConfig config = config_of(step.config_toml, file, data);
  ThreadPool pool(ThreadPool::available_cores());
  std::string text;
  bool is_finite = false;
  try {
    const ReplayedStep float64 = replay(step, config, DType::float64, pool);
    const bool is_one = config.dtype == DType::float64;
    const ReplayedStep own = replay(step, config, config.dtype, pool);
    text = to_text(own, is_one ? own : float64);
    is_finite = !float64.anomaly();
  } catch (const ConfigError& error) {
    fail_damaged(file, error);
  }
  fmt::print("{} step {}: {} of {} examples\n{}", config.task.name, step.step,
             step.micro_batches.size() == 1
                 ? "a batch"
                 : fmt::format("{} micro-batches", step.micro_batches.size()),
             step.micro_batches.empty() ? 0 : step.micro_batches.front().examples, text);
  return is_finite ? kDone : kFailed;
}

}  // namespace attune::cli
