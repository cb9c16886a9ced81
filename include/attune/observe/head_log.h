#pragma once

#include <filesystem>
#include <optional>

#include "attune/core/file.h"
#include "attune/observe/head_detectors.h"
#include "attune/train/observer.h"

namespace attune {

// heads.jsonl: one line an evaluation, layer and head, of the same probe tokens every time. Fields:
// data/README.md. Nothing is written for a kind of attention without weights.
class HeadLog final : public TrainObserver {
 public:
  explicit HeadLog(const std::filesystem::path& path) : log_(path) {}
  void on_evaluation(std::int64_t step, const Transformer& model) override;
  void flush() override { log_.sync(); }

 private:
  LineLog log_;
  std::optional<ProbeTokens> probe_;
};

}  // namespace attune
