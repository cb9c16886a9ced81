#pragma once

#include <filesystem>

#include "attune/core/file.h"
#include "attune/train/observer.h"

namespace attune {

// gradients.jsonl: one line a logged step and parameter that was updated. Fields: data/README.md.
class GradientLog final : public TrainObserver {
 public:
  explicit GradientLog(const std::filesystem::path& path) : log_(path) {}
  void on_step(const StepRecord& record) override;
  void flush() override { log_.sync(); }

 private:
  LineLog log_;
};

// A hidden unit is dead in a batch when no token moves it beyond this magnitude: 0 for relu; 0.001
// for gelu and swiglu, which hardly ever are 0 but pass next to nothing on there.
[[nodiscard]] double dead_up_to(Activation activation);

// activations.jsonl: one line a logged step, layer and place.
class ActivationLog final : public TrainObserver {
 public:
  explicit ActivationLog(const std::filesystem::path& path) : log_(path) {}
  void on_start(const RunStart& start) override {
    dead_up_to_ = dead_up_to(start.config.model.activation);
  }
  void on_step(const StepRecord& record) override;
  void flush() override { log_.sync(); }

 private:
  LineLog log_;
  double dead_up_to_ = 0;
};

}  // namespace attune
