#pragma once

#include <cstdint>
#include <string>

#include "attune/model/transformer.h"
#include "attune/optim/optimizer.h"
#include "attune/train/observer.h"
#include "attune/train/run_profile.h"
#include "attune/train/training_step.h"

namespace attune {

// What a training step led to.
struct Update {
  UpdateRecord record;    // skipped: weights and moments stay as they are
  bool diverged = false;  // a loss or gradient that is not finite, and --skip-nonfinite is off
  std::string reason;     // of a skipped one, as in "step 7: the loss is nan; no update"
};

// Clips the gradients that a step found and updates the weights, or says why not. What it is made
// of must outlive it.
class Updater final {
 public:
  Updater(const RunConfig& config, Transformer& model, Optimizer& optimizer, ThreadPool& pool)
      : config_(config), model_(model), optimizer_(optimizer), pool_(pool) {}

  // `verdict`: why there is to be no update and the run must end; empty: there is none such.
  // `each_parameter`: also what it did to each (UpdateRecord::parameters).
  [[nodiscard]] Update operator()(std::int64_t step, const StepResult& result,
                                  const std::string& verdict, bool each_parameter,
                                  RunProfile* profile);

 private:
  void refuse(std::int64_t step, const StepResult& result, const std::string& verdict,
              Update& update) const;
  [[nodiscard]] std::vector<ParameterRecord> records_of(const StepResult& result,
                                                        const UpdateStatistics& statistics) const;

  const RunConfig& config_;
  Transformer& model_;
  Optimizer& optimizer_;
  ThreadPool& pool_;
};

}  // namespace attune
