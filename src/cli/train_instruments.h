#pragma once

#include <optional>
#include <string>

#include "attune/observe/anomaly_tracer.h"
#include "attune/observe/graph.h"
#include "attune/train/trainer.h"

namespace attune::cli {

// What looks into the training steps of a run, as its configuration asks for: --profile,
// --detect-anomaly, --dot. Made before the run begins, where a file of an earlier anomaly goes.
class TrainInstruments final {
 public:
  TrainInstruments(const RunConfig& config, const Task& task, const RunDirectory& directory,
                   const std::string& toml, Trainer& trainer);
  // What they found, for the end of the run's output; empty: nothing.
  [[nodiscard]] std::string report() const;

 private:
  const RunConfig& config_;
  std::string directory_;
  RunProfile profile_;
  std::optional<AnomalyTracer> tracer_;
  std::optional<GraphFile> graph_;
};

}  // namespace attune::cli
