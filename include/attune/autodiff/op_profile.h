#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "attune/autodiff/tape.h"

namespace attune {

// Tells the time; a test gives one of its own.
using ProfileClock = std::function<std::chrono::steady_clock::time_point()>;

// What one operation cost over all its records.
struct OpCost {
  std::int64_t calls = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  std::int64_t output_bytes = 0;
  // Where the profile measures values: of all elements of the outputs, and of dloss/doutput.
  std::int64_t output_elements = 0;
  double output_squares = 0;
  double gradient_squares = 0;

  OpCost& operator+=(const OpCost& other);
  [[nodiscard]] double seconds() const { return forward_seconds + backward_seconds; }
};

// Module path and name of an operation, such as {"block.0.attention", "linear"}.
using OpPlace = std::pair<std::string, std::string>;
struct OpPlaceLess {
  using View = std::pair<std::string_view, std::string_view>;
  using is_transparent = void;
  bool operator()(const View& a, const View& b) const { return a < b; }
};
using OpCosts = std::map<OpPlace, OpCost, OpPlaceLess>;

// Measures what each operation costs, from what tapes tell their observers:
//   tape.set_value_observer(&profile);
//   profile.begin();  ... the forward pass ...;  tape.backward(y, &profile);  profile.end();
// The time from one record to the next is the forward time of the second one, the time from an
// operation's output gradients to the next ones the backward time of the first. So what happens
// between operations is charged to a neighbour; between the passes it is charged to none.
//
// An operation that runs a tape of its own with the same observers, such as checkpoint(), keeps
// what is left of its time; the operations on that tape count each time they run. One thread at a
// time.
class OpProfile final : public ValueObserver, public GradientObserver {
 public:
  // measures_values: sums the squares of values and gradients as well, in a pass over each that no
  // operation is charged with.
  explicit OpProfile(ProfileClock clock = std::chrono::steady_clock::now,
                     bool measures_values = false);

  // Starts the clock of a forward pass.
  void begin();
  // Ends the backward time of the last operation.
  void end();

  void on_record(const Tape& tape, const RecordView& record,
                 std::span<const Array> outputs) override;
  void on_output_gradients(const Tape& tape, const RecordView& record,
                           std::span<const Array> dy) override;

  [[nodiscard]] const OpCosts& costs() const { return costs_; }

 private:
  OpCost& cost_of(const RecordView& record);
  // Seconds since the last event.
  [[nodiscard]] double elapsed() const;
  void end_backward();

  ProfileClock clock_;
  bool measures_values_;
  std::chrono::steady_clock::time_point last_event_;
  OpCost* in_backward_ = nullptr;  // whose backward runs
  OpCosts costs_;
};

}  // namespace attune
