#pragma once

#include <filesystem>
#include <string>

#include "attune/core/file.h"
#include "attune/train/observer.h"

namespace attune {

// metrics.jsonl: one line a logged step. Fields and units: data/README.md.
class MetricsLog final : public TrainObserver {
 public:
  explicit MetricsLog(const std::filesystem::path& path) : log_(path) {}
  void on_start(const RunStart& start) override { has_answers_ = start.has_answers; }
  void on_step(const StepRecord& record) override;
  void flush() override { log_.sync(); }

 private:
  LineLog log_;
  bool has_answers_ = true;
};

// attention.jsonl: one line a logged step, split, layer and head.
class AttentionLog final : public TrainObserver {
 public:
  explicit AttentionLog(const std::filesystem::path& path) : log_(path) {}
  void on_step(const StepRecord& record) override;
  void flush() override { log_.sync(); }

 private:
  LineLog log_;
};

// summary.json, written when the run ends.
class SummaryFile final : public TrainObserver {
 public:
  SummaryFile(std::filesystem::path path, std::string command_line)
      : path_(std::move(path)), command_line_(std::move(command_line)) {}
  void on_start(const RunStart& start) override { has_answers_ = start.has_answers; }
  void on_end(const RunSummary& summary) override;

 private:
  std::filesystem::path path_;
  std::string command_line_;
  bool has_answers_ = true;
};

}  // namespace attune
