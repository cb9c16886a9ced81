#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attune/autodiff/op_profile.h"

namespace attune {

// What a run does besides the operations of its training steps.
enum class Phase : std::uint8_t { drawing, reducing, optimizer, evaluation, checkpoint };

// Where the time of a run went. All seconds are those of threads, added up: a run of 2 threads that
// takes 3 s has 6 s. An operation and the drawing of a batch have what they took on their thread; a
// phase of the whole run has its time on every thread, working or not; a thread that had no shard
// left while others worked was waiting. What remains is other, so that the rows add up to the run.
class RunProfile final {
 public:
  explicit RunProfile(ProfileClock clock = std::chrono::steady_clock::now);

  // From the next begin() on: sizes of outputs and gradients as well. A pass over each of them,
  // whose time is "other".
  void measure_values(bool measures) { measures_values_ = measures; }
  [[nodiscard]] bool measures_values() const { return measures_values_; }

  struct Row {
    std::string name;
    bool is_phase = false;  // not an operation: only `seconds` counts
    OpCost cost;
    double seconds = 0;
    // Where values are measured: the root mean square over all elements of its outputs; and the
    // norm of dloss/doutputs, all outputs of a step together, as a root mean square over steps.
    double output_rms = 0;
    double gradient_norm = 0;
  };
  // One row an operation, or one a module ("model" where no module was named), and one a phase;
  // the longest first.
  [[nodiscard]] std::vector<Row> by_op() const;
  [[nodiscard]] std::vector<Row> by_module() const;
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] double elapsed_seconds() const { return elapsed_seconds_; }

  // --- for whom it watches ---
  // Starts the clock of a run; what was measured before is forgotten.
  void begin(int threads, std::int64_t shards);
  void end();
  void count_step() { ++steps_; }

  // What one shard did, kept by the thread that runs it.
  struct Shard {
    OpProfile ops;
    double busy_seconds = 0;     // drawing included
    double drawing_seconds = 0;  // of the next step's batch
  };
  [[nodiscard]] Shard& shard(std::size_t index) { return *shards_[index]; }

  // Adds the seconds until it goes. Does nothing without a profile: `sum` is then null.
  class Timer final {
   public:
    Timer(const RunProfile* profile, double* sum);
    Timer(RunProfile* profile, Phase phase);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    const RunProfile* profile_;
    double* sum_;
    std::chrono::steady_clock::time_point begin_;
  };
  // Of the calling thread, while the pool runs shards.
  [[nodiscard]] double& in_shards() { return in_shards_; }

 private:
  [[nodiscard]] std::vector<Row> rows(const std::string& (*name_of)(const OpPlace&)) const;
  void add_phases(std::vector<Row>& rows) const;

  static constexpr std::size_t kPhases = 5;
  ProfileClock clock_;
  std::chrono::steady_clock::time_point begin_;
  bool measures_values_ = false;
  int threads_ = 1;
  std::int64_t steps_ = 0;
  double elapsed_seconds_ = 0;
  double in_shards_ = 0;
  std::array<double, kPhases> phases_{};  // of the calling thread
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace attune
