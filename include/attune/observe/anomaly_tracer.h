#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attune/autodiff/anomaly_trace.h"
#include "attune/train/step_observer.h"

namespace attune {

// An anomaly and the part of the step that it happened in.
struct StepAnomaly {
  std::int64_t step = 0;
  StepPlace place;
  Anomaly anomaly;
};

// Looks for the first number of a training step that is not finite (--detect-anomaly) and ends the
// run where it meets one, before the update. Of several shards that of the lowest micro-batch and
// the lowest shard counts, there the first one: it does not depend on threads.
class AnomalyTracer final : public StepObserver {
 public:
  // Where there is an anomaly, writes the step to `file` (observe/anomaly_file.h); empty: nothing.
  explicit AnomalyTracer(std::filesystem::path file = {}, std::string config_toml = {},
                         std::vector<std::string> vocabulary = {});
  ~AnomalyTracer() override;

  [[nodiscard]] const std::optional<StepAnomaly>& found() const { return found_; }
  // What was seen in a part of the last step.
  [[nodiscard]] const AnomalyTrace& trace(StepPlace place) const;

  void begin(std::int64_t micro_batches, std::int64_t shards) override;
  [[nodiscard]] ValueObserver* values(StepPlace place) override;
  [[nodiscard]] GradientObserver* gradients(StepPlace place) override;
  // Throws IoError where the file cannot be written.
  [[nodiscard]] std::string verdict(const StepView& view) override;

 private:
  std::filesystem::path file_;
  std::string config_toml_;
  std::vector<std::string> vocabulary_;
  std::int64_t shards_ = 0;
  std::vector<std::unique_ptr<AnomalyTrace>> traces_;  // [micro-batch, shard]
  std::optional<StepAnomaly> found_;
};

// For people: where and what in one line, then the table.
[[nodiscard]] std::string anomaly_report(const StepAnomaly& anomaly);
// The op's outputs and inputs and how the numbers came to it, with shapes and largest magnitudes;
// beside them those that another run of the same part of the step, in float64, met at the same
// places, where it is given.
[[nodiscard]] std::string anomaly_table(const Anomaly& anomaly,
                                        const AnomalyTrace* float64 = nullptr);

}  // namespace attune
