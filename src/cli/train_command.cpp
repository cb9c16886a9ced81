#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/hash.h"
#include "attune/observe/alarm_log.h"
#include "attune/observe/console.h"
#include "attune/observe/head_log.h"
#include "attune/observe/inside_logs.h"
#include "attune/observe/logs.h"
#include "attune/observe/tensorboard.h"
#include "attune/train/options.h"
#include "attune/train/trainer.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/run_request.h"
#include "cli/saved_run.h"
#include "cli/train_instruments.h"
#include "kernels/gemm.h"

namespace attune::cli {
namespace {

volatile std::sig_atomic_t interrupt_requested = 0;

// The first Ctrl-C or SIGTERM asks the run to end after its step; the second one ends the process.
extern "C" void on_signal(int signal) {
  interrupt_requested = 1;
  std::signal(signal, SIG_DFL);
}

std::vector<CommandOption> train_options(const RunConfig& defaults) {
  std::vector<CommandOption> options = command_options(option_table(), defaults);
  options.push_back(config_option());
  options.push_back({"dump-config",
                     {},
                     "Configuration",
                     "print the resolved configuration as TOML and stop",
                     CommandOption::Takes::nothing,
                     "",
                     "",
                     false});
  return options;
}

RunRequest read_train_request(Words words) {
  return read_run_request("train", words, train_options(RunConfig::defaults_for("text")));
}

// A run to go on with.
struct Saved {
  std::optional<RunDirectory> directory;  // held from before anything was read; not for a dump
  std::optional<Checkpoint> checkpoint;   // if it came that far
  RunConfig config;                       // as of the checkpoint
  RunConfig wanted;                       // with what its config.toml says of it now
  DataFile data;
};

// Options that may change were written to config.toml when the run was resumed, maybe with no
// checkpoint since; or by hand.
void apply_config_file(const std::filesystem::path& path, Saved& saved) {
  if (!std::filesystem::exists(path)) return;
  apply_toml(saved.wanted, read_file(path), path.string());
  saved.wanted = saved.wanted.resolved();
  const std::vector<std::string> changed = changed_options(saved.config, saved.wanted);
  if (changed.empty()) return;
  throw ConfigError(
      fmt::format("{}: {} is not as in the checkpoint, it cannot change when a run is resumed",
                  path.string(), changed.front()));
}

std::optional<Saved> saved_run(const RunConfig& asked, bool is_dump) {
  if (asked.out_dir.empty()) throw ConfigError("--resume: --out-dir must name the run to continue");
  if (!RunDirectory::holds_run(asked.out_dir)) return std::nullopt;
  Saved saved;
  if (!is_dump) saved.directory.emplace(RunDirectory::open(asked.out_dir));
  const std::filesystem::path directory = asked.out_dir;
  const std::filesystem::path config = directory / "config.toml";
  const std::filesystem::path source = directory / "checkpoint.safetensors";
  if (std::filesystem::exists(source)) {
    saved.checkpoint.emplace(source);
    saved.wanted = saved.config = config_of(*saved.checkpoint, source, saved.data);
    apply_config_file(config, saved);
    return saved;
  }
  const std::string toml = read_file(config);
  saved.config = RunConfig::defaults_for(task_in_toml(toml, config.string()));
  apply_toml(saved.config, toml, config.string(), &saved.data);
  saved.wanted = saved.config = saved.config.resolved();
  return saved;
}

DataFile identify(const std::string& path) {
  const std::string bytes = read_file(path);
  return {std::filesystem::absolute(path).lexically_normal().string(),
          static_cast<std::int64_t>(bytes.size()), sha256(bytes)};
}

// The configuration of the run: defaults, files, command line; for a resumed one the saved
// configuration in place of defaults.
RunConfig resolve(const RunRequest& request, const std::optional<Saved>& saved) {
  RunConfig config;
  if (saved) {
    config = saved->wanted;
  } else {
    if (request.task.empty())
      throw ConfigError(
          "train: a task is missing, as in 'attune train copy'; see 'attune list tasks'");
    config = RunConfig::defaults_for(request.task);
  }
  apply(request, config);
  config = config.resolved();
  if (saved) {
    const std::vector<std::string> changed = changed_options(saved->config, config);
    if (!changed.empty()) {
      throw ConfigError(fmt::format("{}: cannot change when a run is resumed", changed.front()));
    }
  }
  return config;
}

void check_same_data(const DataFile& saved, const DataFile& now) {
  if (saved.sha256.empty() || saved.sha256 == now.sha256) return;
  throw ConfigError(fmt::format(
      "--data: {} ({} bytes) is not the file this run was trained on ({} bytes, SHA-256 {})",
      now.path, now.bytes, saved.bytes, saved.sha256));
}

// A model that goes on has what its checkpoint holds; a file cannot ask for more memory than that.
Trainer trainer_of(const RunConfig& config, const Task& task, const std::optional<Saved>& saved) {
  if (!saved || !saved->checkpoint) return Trainer(config, task);
  try {
    return Trainer(config, task, saved->checkpoint->parameter_elements());
  } catch (const ConfigError& error) {
    fail_damaged(std::filesystem::path(config.out_dir) / "checkpoint.safetensors", error);
  }
}

int exit_code(const RunSummary& summary) {
  if (summary.status == RunStatus::interrupted) return kInterrupted;
  return summary.status == RunStatus::diverged ? kFailed : kDone;
}

// A model that predicts the next token of what it sees learns to copy it.
std::optional<std::string> note_on_mask(const RunConfig& config) {
  if (config.model.mask == "none" ||
      make_mask(config.model.mask, config.model.mask_sizes).is_causal())
    return std::nullopt;
  return fmt::format("--mask {} lets tokens see the ones they are to predict; causal+{} does not",
                     config.model.mask, config.model.mask);
}

// Trains in the run's directory, which is made only now that the configuration, the data and the
// model are known to be sound.
int train(Trainer& trainer, const RunConfig& config, const Task& task, const std::string& toml,
          std::optional<Saved> saved, Words words) {
  const RunDirectory directory =
      saved ? std::move(*saved->directory) : RunDirectory::create(config.out_dir, config.task.name);
  write_file_atomically(directory.config(), toml);
  std::filesystem::remove(directory.summary());  // of an end that is none any more
  if (saved) directory.drop_log_lines_from(saved->checkpoint ? saved->checkpoint->state().step : 0);
  MetricsLog metrics(directory.metrics());
  AttentionLog attention(directory.attention());
  SummaryFile summary_file(directory.summary(), command_line("train", words));
  Console console(stdout, isatty(STDOUT_FILENO) != 0);
  AlarmLog alarms(directory.alarms(), directory.attention(), console);
  std::vector<TrainObserver*> observers = {&metrics, &attention, &console, &summary_file, &alarms};
  std::optional<HeadLog> heads;
  if (config.log_heads) observers.push_back(&heads.emplace(directory.heads()));
  std::optional<GradientLog> gradients;
  if (config.log_grads) observers.push_back(&gradients.emplace(directory.gradients()));
  std::optional<ActivationLog> activations;
  if (config.log_activations) observers.push_back(&activations.emplace(directory.activations()));
  std::unique_ptr<TrainObserver> tensorboard;
  if (config.tensorboard) {
    tensorboard = make_tensorboard_log(directory.path());
    observers.push_back(tensorboard.get());
  }

  if (const auto note = note_on_mask(config)) console.on_note(*note);
  if (config.log_heads && trainer.model().make_statistics().heads() == 0)
    console.on_note(
        fmt::format("--log-heads: --attention {} has no weights to score", config.model.attention));
  if (config.resume && !(saved && saved->checkpoint))
    console.on_note("there is no checkpoint yet: starting at step 0");
  if (saved && saved->checkpoint &&
      saved->checkpoint->state().blas_kernel != kernels::blas_kernel()) {
    console.on_note(fmt::format(
        "the run was computed with BLAS kernel {}, this is {}: the continuation is not bitwise",
        saved->checkpoint->state().blas_kernel, kernels::blas_kernel()));
  }
  const TrainInstruments instruments(config, task, directory, toml, trainer);
  const RunSummary summary =
      trainer.run(&directory, toml, observers, [] { return interrupt_requested != 0; });
  // Like the console, without regard to a stream that was closed.
  std::fputs(instruments.report().c_str(), stdout);
  if (!summary.message.empty()) print_error(summary.message);
  return with_output_error(exit_code(summary), console.output_error());
}

void print_train_help(const Command& command, const std::string& task) {
  const std::string description =
      "Trains a model. Tasks: attune list tasks. Defaults shown are those of " + task + ".";
  fmt::print("{}",
             render_help(command.usage, description, train_options(RunConfig::defaults_for(task))));
}

}  // namespace

int run_train(const Command& command, Words words) {
  const RunRequest request = read_train_request(words);
  if (request.arguments.find("help")) {
    print_train_help(command, request.task.empty() ? "text" : request.task);
    return kDone;
  }
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  RunConfig asked = RunConfig::defaults_for(request.task.empty() ? "text" : request.task);
  apply(request, asked);
  const bool is_dump = request.arguments.find("dump-config") != nullptr;
  std::optional<Saved> saved = asked.resume ? saved_run(asked, is_dump) : std::nullopt;
  RunConfig config = resolve(request, saved);

  DataFile data;
  const bool has_data = !config.task.data.empty();
  if (has_data) {
    data = identify(config.task.data);
    if (saved) check_same_data(saved->data, data);
    config.task.data = data.path;
  }
  const std::unique_ptr<Task> task = make_task(config.task);
  config.model = model_config(config, *task);
  const std::string toml = to_toml(config, has_data ? &data : nullptr);
  Trainer trainer = trainer_of(config, *task, saved);  // also checks what is looked up by name
  if (is_dump) {
    fmt::print("{}", toml);
    return kDone;
  }
  if (config.tensorboard) require_tensorboard();
  if (!config.resume && !config.out_dir.empty() && RunDirectory::holds_run(config.out_dir)) {
    throw ConfigError(fmt::format("--out-dir: {} already holds a run; continue it with --resume",
                                  config.out_dir));
  }
  if (saved && saved->checkpoint) trainer.resume(*saved->checkpoint);
  if (interrupt_requested != 0) {
    print_error("interrupted before the run began");
    return kInterrupted;
  }
  return train(trainer, config, *task, toml, std::move(saved), words);
}

}  // namespace attune::cli
