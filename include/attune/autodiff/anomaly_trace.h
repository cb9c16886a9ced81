#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attune/autodiff/tape.h"

namespace attune {

// A value on a tape as a trace tells of it.
struct TracedValue {
  std::string maker;       // an op, "parameter <name>", "input" (a leaf) or "constant"
  std::string path;        // the module where it was made; empty: none was named
  std::int32_t slot = -1;  // on its tape; -1: a constant
  Shape shape;             // [] for a constant: its shape is not recorded
  // The largest |x| of the finite elements; nothing where nobody saw the value.
  std::optional<double> largest;
  std::optional<double> largest_gradient;  // the same of dloss/dvalue
  std::string nonfinite;  // "nan at [0, 3], 2 of 96 elements"; empty: all are finite
};

// The first number of a step that is not finite, and how it came about.
struct Anomaly {
  enum class Kind : std::uint8_t {
    parameter,  // a parameter was not finite when the forward pass first read it
    forward,    // an op's output, made from finite inputs
    backward,   // the gradient of an op's input, made from finite gradients of its outputs
  };
  Kind kind = Kind::forward;
  std::string op;    // that made it; of a parameter: that read it first
  std::string path;  // the module in which the op ran; empty: none was named
  int place = 0;     // which output (forward) or input (parameter, backward) of the op
  TracedValue value;
  std::vector<TracedValue> outputs;  // of the op
  std::vector<TracedValue> inputs;
  // How the numbers came to the op: forward the makers of its inputs, each time along the input of
  // the largest magnitude, back to a leaf; backward those who read its outputs, each time along the
  // largest gradient, on to the loss. At most kLongestChain.
  std::vector<TracedValue> chain;
};
inline constexpr std::size_t kLongestChain = 8;

// One line: "attention in block.0.attention gives nan at [0, 0, 0], 3 of 96 elements of its output
// [4, 3, 8]".
[[nodiscard]] std::string to_string(const Anomaly& anomaly);

// Finds the first value or gradient of a tape that is not finite, and knows the largest magnitude
// of each value and gradient up to there:
//   tape.set_value_observer(&trace);   ... the forward pass ...;   tape.backward(y, &trace);
// Each number is attributed to the very op that made it: outputs are looked at when they are
// recorded, parameters when an op first reads them, gradients when a backward has added them. It
// costs a pass over every value and gradient.
//
// The infinities of masks are no anomaly: -inf that where() puts in place of what is not kept, and
// what later ops make of those elements as long as it is -inf. Constants are not seen; what an op
// makes of them is. Of an op that runs a tape of its own, such as checkpoint(), the ops inside are
// named. One thread at a time.
class AnomalyTrace final : public ValueObserver, public GradientObserver {
 public:
  // Forgets everything.
  void clear();
  [[nodiscard]] const std::optional<Anomaly>& anomaly() const { return anomaly_; }

  // What was seen at a slot of the tape whose records it saw last at the outermost level; `maker`
  // as TracedValue has it. Nothing where it was not seen or another op made it.
  struct Seen {
    std::optional<double> largest;
    std::optional<double> largest_gradient;
  };
  [[nodiscard]] Seen seen(std::int32_t slot, const std::string& maker) const;

  void on_record(const Tape& tape, const RecordView& record,
                 std::span<const Array> outputs) override;
  void on_output_gradients(const Tape& tape, const RecordView& record,
                           std::span<const Array> dy) override;
  void on_input_gradients(const Tape& tape, const RecordView& record) override;

 private:
  struct Slot {
    double largest = kUnseen;
    double largest_gradient = kUnseen;
    bool is_masked = false;  // may hold -inf
    std::string maker{};     // as TracedValue has it; empty: not seen
  };
  static constexpr double kUnseen = -1;
  // What one tape holds; a tape within a tape has its own.
  struct Table {
    const Tape* tape;
    std::vector<Slot> slots;
  };

  [[nodiscard]] Table& table_of(const Tape& tape);
  [[nodiscard]] static Slot& slot_of(Table& table, std::int32_t slot);
  void look_at_parameters(const Tape& tape, Table& table, const RecordView& record);
  void look_at_gradient(const Tape& tape, Table& table, const RecordView& record, int input);
  [[nodiscard]] static TracedValue traced(const Tape& tape, const Table& table, std::int32_t slot);
  [[nodiscard]] static Anomaly described(const Tape& tape, const Table& table, Anomaly::Kind kind,
                                         const RecordView& record, int place, const Array& values);
  static void follow_inputs(const Tape& tape, const Table& table, Anomaly& anomaly);
  static void follow_readers(const Tape& tape, const Table& table, Anomaly& anomaly);

  std::vector<Table> tables_;  // the outermost tape first
  std::optional<Anomaly> anomaly_;
};

}  // namespace attune
