#include "cli/saved_run.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/hash.h"
#include "attune/train/options.h"

namespace attune::cli {
namespace {

std::filesystem::path checkpoint_of(const std::string& path) {
  if (std::filesystem::is_regular_file(path)) return path;
  const std::filesystem::path file = std::filesystem::path(path) / "checkpoint.safetensors";
  if (!std::filesystem::exists(path)) throw IoError(fmt::format("{}: there is no such run", path));
  if (!std::filesystem::exists(file)) {
    throw IoError(fmt::format("{}: holds no checkpoint.safetensors", path));
  }
  return file;
}

}  // namespace

void fail_damaged(const std::filesystem::path& file, const ConfigError& error) {
  throw IoError(fmt::format("{}: its configuration is damaged: {}", file.string(), error.what()));
}

RunConfig config_of(const Checkpoint& checkpoint, const std::filesystem::path& file,
                    DataFile& data) {
  return config_of(checkpoint.state().config_toml, file, data);
}

RunConfig config_of(const std::string& toml, const std::filesystem::path& file, DataFile& data) {
  try {
    RunConfig config = RunConfig::defaults_for(task_in_toml(toml, file.string()));
    apply_toml(config, toml, file.string(), &data);
    return config.resolved();
  } catch (const ConfigError& error) {
    fail_damaged(file, error);
  }
}

SavedRun::SavedRun(const std::string& path) {
  const std::filesystem::path file = checkpoint_of(path);
  const Checkpoint checkpoint(file);
  const CheckpointState& state = checkpoint.state();
  step_ = state.step;
  config_ = config_of(checkpoint, file, data_);
  try {
    const bool is_text = config_.task.name == "text";
    vocabulary_.emplace(state.vocabulary,
                        is_text ? Vocabulary::Spelling::text : Vocabulary::Spelling::symbols);
    model_ = std::make_unique<Transformer>(config_.model_over(vocabulary_->texts()),
                                           static_cast<std::uint64_t>(config_.seed), config_.dtype,
                                           checkpoint.parameter_elements());
  } catch (const ConfigError& error) {
    fail_damaged(file, error);
  } catch (const ValueError& error) {
    throw IoError(fmt::format("{}: {}", file.string(), error.what()));
  }
  checkpoint.restore(model_->parameters());
}

std::unique_ptr<Task> SavedRun::task(const std::string& data) const {
  TaskOptions options = config_.task;
  if (!data.empty()) {
    options.data = data;
  } else if (!data_.sha256.empty() && sha256(read_file(options.data)) != data_.sha256) {
    throw IoError(fmt::format(
        "{}: is not the file this run was trained on ({} bytes, SHA-256 {}); --data names another",
        options.data, data_.bytes, data_.sha256));
  }
  std::unique_ptr<Task> task = make_task(options);
  if (task->vocabulary_texts() != vocabulary_->texts()) {
    throw IoError(fmt::format("{}: has another vocabulary ({} tokens) than the run ({})",
                              options.data, task->vocabulary(), vocabulary_->size()));
  }
  return task;
}

Batch SavedRun::held_out_example(const Task& task, std::int64_t number) const {
  const BatchSource source(task, static_cast<std::uint64_t>(config_.seed), 0);
  Batch batch = source.evaluation(Split::validation, number, 1);
  const auto last = std::ranges::find_if(batch.targets.rbegin(), batch.targets.rend(),
                                         [](std::int32_t target) { return target != kIgnore; });
  const auto used = static_cast<std::size_t>(batch.targets.rend() - last);
  batch.tokens.resize(used);
  batch.targets.resize(used);
  batch.time = static_cast<std::int64_t>(used);
  return batch;
}

}  // namespace attune::cli
