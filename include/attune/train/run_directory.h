#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attune/core/file.h"

namespace attune {

// The directory of a training run and its files; locked while the run goes on.
class RunDirectory final {
 public:
  // A new run: creates `path`, or runs/TASK-NUMBER with the first free number where path is empty.
  // Throws ConfigError where it already holds a run ("... already holds a run; continue it with
  // --resume"), IoError where it cannot be written.
  [[nodiscard]] static RunDirectory create(const std::filesystem::path& path,
                                           const std::string& task);
  // A run to continue, with or without a checkpoint yet. Throws ConfigError where there is none.
  [[nodiscard]] static RunDirectory open(const std::filesystem::path& path);
  // Whether the directory holds a run: a config.toml or a checkpoint.
  [[nodiscard]] static bool holds_run(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path config() const { return path_ / "config.toml"; }
  [[nodiscard]] std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path attention() const { return path_ / "attention.jsonl"; }
  [[nodiscard]] std::filesystem::path heads() const { return path_ / "heads.jsonl"; }
  [[nodiscard]] std::filesystem::path gradients() const { return path_ / "gradients.jsonl"; }
  [[nodiscard]] std::filesystem::path activations() const { return path_ / "activations.jsonl"; }
  [[nodiscard]] std::filesystem::path alarms() const { return path_ / "alarms.jsonl"; }
  [[nodiscard]] std::filesystem::path checkpoint() const {
    return path_ / "checkpoint.safetensors";
  }
  // That of the smallest validation loss so far.
  [[nodiscard]] std::filesystem::path best_checkpoint() const { return path_ / "best.safetensors"; }
  // An earlier one that is kept: checkpoint-STEP.safetensors.
  [[nodiscard]] std::filesystem::path kept_checkpoint(std::int64_t step) const;
  // The steps of those that are there, ascending. Throws IoError.
  [[nodiscard]] std::vector<std::int64_t> kept_steps() const;
  [[nodiscard]] std::filesystem::path summary() const { return path_ / "summary.json"; }

  // Drops every line of the logs (*.jsonl) whose "step" is at or beyond `step`, and a torn last
  // line; each log atomically. Resuming at a checkpoint of `step` will write them again.
  void drop_log_lines_from(std::int64_t step) const;

 private:
  RunDirectory(std::filesystem::path path);
  std::filesystem::path path_;
  std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace attune
