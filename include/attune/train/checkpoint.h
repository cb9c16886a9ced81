#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attune/autodiff/parameter.h"
#include "attune/optim/optimizer.h"

namespace attune {

// The state of a run after `step` updates, beside its arrays. All of it is metadata strings of
// checkpoint.safetensors.
struct CheckpointState {
  static constexpr int kFormatVersion = 1;

  std::int64_t step = 0;
  std::int64_t optimizer_updates = 0;   // fewer than step where steps were skipped
  std::string config_toml;              // the run's config.toml
  std::vector<std::string> vocabulary;  // token texts in order
  std::string blas_kernel;              // the continuation is bitwise on the same kernel alone
  double best_val_loss = 0;             // smallest so far; infinity before the first evaluation
  std::map<std::string, double>
      counters;  // further numbers that resuming needs: "skipped_steps", "elapsed_seconds", ...
};

// Writes parameters under their names, the optimizer's state under optim.m.<name> and
// optim.v.<name>, atomically.
void save_checkpoint(const std::filesystem::path& path, const CheckpointState& state,
                     const ParameterStore& parameters, const Optimizer& optimizer);

// A checkpoint that was read and checked as a file; nothing is applied to a model yet.
class Checkpoint final {
 public:
  // Throws IoError in one line: missing, damaged, a newer format version.
  explicit Checkpoint(const std::filesystem::path& path);

  [[nodiscard]] const CheckpointState& state() const { return state_; }
  // A counter of the state, `otherwise` where there is none. Throws IoError naming file and counter
  // where it is not a finite number of at least `least` and at most 2^53.
  [[nodiscard]] double counter(const std::string& name, double otherwise, double least) const;
  // Numbers in the file's parameters: the most that a model made from its configuration may have,
  // so that no file has more memory taken than a multiple of its size.
  [[nodiscard]] std::int64_t parameter_elements() const;
  // All or nothing: every parameter of the store must be there with its shape and dtype, and
  // nothing else; otherwise throws IoError naming file and parameter and leaves the model bitwise
  // as it was. The same for the optimizer.
  void restore(ParameterStore& parameters) const;
  void restore(ParameterStore& parameters, Optimizer& optimizer) const;

 private:
  std::string source_;
  CheckpointState state_;
  std::vector<std::pair<std::string, Array>> parameters_;
  std::vector<std::pair<std::string, Array>> optimizer_;
};

}  // namespace attune
