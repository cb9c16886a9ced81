#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "attune/train/observer.h"

namespace attune {

// What `attune train` prints: the run's head, nanoGPT-shaped lines
//   step 250: train loss 2.1234, val loss 2.2345
//   iter 250: loss 2.1034, time 85.30ms, tok/s 9006, entropy 0.71 [0.32 0.98]
// and, on a terminal, one live line below them with a bar, the rate and the time left. A stream
// that was closed ends nothing.
class Console final : public TrainObserver {
 public:
  Console(std::FILE* out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}

  void on_start(const RunStart& start) override;
  void on_step(const StepRecord& record) override;
  void on_note(std::string_view line) override;
  void on_end(const RunSummary& summary) override;

  // The errno of the first line that did not arrive; 0: all did.
  [[nodiscard]] int output_error() const { return output_error_; }

 private:
  void print(const std::string& line);
  void draw_bar(const StepRecord& record);
  void clear_bar();

  using Clock = std::chrono::steady_clock;
  std::FILE* out_;
  bool is_terminal_;
  bool bar_is_drawn_ = false;
  bool has_answers_ = true;
  std::int64_t max_iters_ = 0;
  std::int64_t log_interval_ = 1;
  std::int64_t first_step_ = 0;
  std::string directory_;
  int output_error_ = 0;
  std::string state_;  // loss, accuracy and entropy as last known, for the bar
  Clock::time_point begin_;
  Clock::time_point last_drawn_;
};

}  // namespace attune
