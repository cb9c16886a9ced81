#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "attune/autodiff/parameter.h"
#include "attune/task/task.h"

namespace attune {

// Everything that a training step starts from, so that it can be run again. As a file:
// anomaly.safetensors, whose arrays and metadata data/README.md tells.
struct SavedStep {
  std::int64_t step = 0;
  std::string config_toml;              // the run's config.toml
  std::vector<std::string> vocabulary;  // token texts in order
  std::string report;                   // what was found, for people
  std::vector<Batch> micro_batches;
  std::vector<std::pair<std::string, Array>> parameters;  // by name
};

// Throws IoError.
void save_step(const std::filesystem::path& file, const SavedStep& step);
// Throws IoError in one line: missing, damaged, or another kind of file.
[[nodiscard]] SavedStep load_step(const std::filesystem::path& file);

// Puts the saved values into a model's parameters, cast to their dtype. Throws IoError naming the
// parameter where one is missing, superfluous or of another shape; the model is then as it was.
void restore_parameters(const SavedStep& step, ParameterStore& parameters);

}  // namespace attune
