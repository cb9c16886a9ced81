#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "attune/core/thread_pool.h"
#include "attune/observe/anomaly_file.h"
#include "attune/observe/anomaly_tracer.h"
#include "attune/train/run_config.h"

namespace attune {

// A saved step, run again in one precision.
struct ReplayedStep {
  DType dtype = DType::float32;
  double loss_nats = 0;
  double gradient_norm = 0;
  std::unique_ptr<AnomalyTracer> tracer;  // what it found and saw

  [[nodiscard]] const std::optional<StepAnomaly>& anomaly() const { return tracer->found(); }
};

// The same batches, parameters (cast), shards and random numbers as in the run. `config` is the
// resolved one of the run. Throws IoError where parameters and configuration do not fit each other.
[[nodiscard]] ReplayedStep replay(const SavedStep& step, const RunConfig& config, DType dtype,
                                  ThreadPool& pool);

enum class ReplayVerdict : std::uint8_t {
  poisoned_parameter,  // the step began with a parameter that is not finite
  overflow,            // finite in float64
  fault,               // not finite in float64 either
  not_reproduced,      // finite in the run's own precision, too
};
// `own`: in the run's precision; `float64`: the same where that is float64.
[[nodiscard]] ReplayVerdict verdict(const ReplayedStep& own, const ReplayedStep& float64);

// For people: what each precision found, the verdict with what to do, and the table of magnitudes
// side by side.
[[nodiscard]] std::string to_text(const ReplayedStep& own, const ReplayedStep& float64);

}  // namespace attune
