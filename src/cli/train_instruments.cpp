#include "cli/train_instruments.h"

#include <filesystem>

#include <fmt/format.h>

#include "attune/observe/profile_table.h"

namespace attune::cli {

TrainInstruments::TrainInstruments(const RunConfig& config, const Task& task,
                                   const RunDirectory& directory, const std::string& toml,
                                   Trainer& trainer)
    : config_(config), directory_(directory.path().string()) {
  const std::filesystem::path anomaly = directory.path() / "anomaly.safetensors";
  std::filesystem::remove(anomaly);
  profile_.measure_values(config.profile_values);
  if (config.profile != ProfileTable::off) trainer.set_profile(&profile_);
  if (config.detect_anomaly) {
    tracer_.emplace(anomaly, toml, task.vocabulary_texts());
    trainer.add_step_observer(&*tracer_);
  }
  if (!config.dot.empty()) {
    graph_.emplace(config.dot, GraphOptions{config.dot_ops});
    trainer.add_step_observer(&*graph_);
  }
}

std::string TrainInstruments::report() const {
  std::string text = profile_table(profile_, config_.profile);
  if (tracer_ && tracer_->found()) {
    text += fmt::format("anomaly at {}run that step again: attune replay {}\n",
                        anomaly_report(*tracer_->found()), directory_);
  }
  return text;
}

}  // namespace attune::cli
