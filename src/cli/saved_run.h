#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "attune/core/error.h"
#include "attune/model/transformer.h"
#include "attune/task/vocabulary.h"
#include "attune/train/checkpoint.h"
#include "attune/train/options.h"
#include "attune/train/run_config.h"

namespace attune::cli {

// The resolved configuration in a checkpoint, and what it says of a data file. Throws IoError where
// it is wrong: nobody edits it there, so that is a damage of the file.
[[nodiscard]] RunConfig config_of(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                  DataFile& data);
// The same of the configuration's text, as any file of a run may hold it.
[[nodiscard]] RunConfig config_of(const std::string& toml, const std::filesystem::path& file,
                                  DataFile& data);
[[noreturn]] void fail_damaged(const std::filesystem::path& file, const ConfigError& error);

// A trained model as a run directory (or a checkpoint file) holds it.
class SavedRun final {
 public:
  // Throws IoError where there is no checkpoint or it does not fit together.
  explicit SavedRun(const std::string& path);

  [[nodiscard]] const RunConfig& config() const { return config_; }
  [[nodiscard]] const Transformer& model() const { return *model_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return *vocabulary_; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  // The task it was trained on; `data` replaces the path of its text where it is not empty. Throws
  // IoError for another vocabulary, and where the run's own path leads to another file by now.
  [[nodiscard]] std::unique_ptr<Task> task(const std::string& data) const;
  // Held-out example `number` of the task, up to the last token at which something is asked.
  [[nodiscard]] Batch held_out_example(const Task& task, std::int64_t number) const;

 private:
  RunConfig config_;
  DataFile data_;
  std::int64_t step_ = 0;
  std::optional<Vocabulary> vocabulary_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace attune::cli
