#pragma once

#include <filesystem>
#include <optional>
#include <utility>

#include "attune/core/file.h"
#include "attune/observe/entropy_watch.h"
#include "attune/train/observer.h"

namespace attune {

// alarms.jsonl: what an EntropyWatch says of the records of the training batches' attention
// (--attention-interval). The file is made with the first alarm. Fields: data/README.md.
class AlarmLog final : public TrainObserver {
 public:
  // `attention`: attention.jsonl, by which a resumed run knows what was seen before. `told` hears a
  // line an alarm, and must outlive it.
  AlarmLog(std::filesystem::path path, std::filesystem::path attention, TrainObserver& told)
      : path_(std::move(path)), attention_(std::move(attention)), told_(told) {}

  // Throws IoError where attention.jsonl cannot be read.
  void on_start(const RunStart& start) override;
  void on_step(const StepRecord& record) override;
  void flush() override {
    if (log_) log_->sync();
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path attention_;
  TrainObserver& told_;
  std::optional<EntropyWatch> watch_;
  std::optional<LineLog> log_;  // from the first alarm on
};

}  // namespace attune
