#pragma once

#include <cstdint>

#include "attune/train/checkpoint.h"
#include "attune/train/run_config.h"
#include "attune/train/run_directory.h"

namespace attune {

// Which checkpoints of a run are written and which stay: the newest as checkpoint.safetensors,
// those before it as checkpoint-STEP.safetensors (--keep-last), those of certain steps under such
// a name for good (--checkpoint-at), the best as best.safetensors
// (--keep-best). A process that ends at any moment leaves every one of these names whole, and the
// run that goes on from the newest ends with the same files as one that was never broken.
class CheckpointKeeper final {
 public:
  // `saved_step`: of the checkpoint that the run was resumed from; -1: a new run. Configuration and
  // directory must outlive the keeper.
  CheckpointKeeper(const RunConfig& config, const RunDirectory& directory, std::int64_t saved_step)
      : config_(config), directory_(directory), saved_step_(saved_step) {}

  // Whether there is none of this step yet and one is wanted.
  [[nodiscard]] bool is_due(std::int64_t step, bool last) const;
  // Throws IoError; the newest checkpoint is then still the one before. So it is with
  // --detect-anomaly where a parameter is not finite: nothing is written.
  void save(const CheckpointState& state, const ParameterStore& parameters,
            const Optimizer& optimizer);
  void save_best(const CheckpointState& state, const ParameterStore& parameters,
                 const Optimizer& optimizer) const;

 private:
  // Among --checkpoint-at.
  [[nodiscard]] bool is_kept_for_good(std::int64_t step) const;
  void keep_newest(std::int64_t step) const;
  void drop_superfluous(std::int64_t step) const;

  const RunConfig& config_;
  const RunDirectory& directory_;
  std::int64_t saved_step_;
};

}  // namespace attune
