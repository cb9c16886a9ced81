#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "autodiff/closure_arena.h"

// What a tape holds, for the files that implement it.
namespace attune {

inline constexpr std::size_t kLeaf = static_cast<std::size_t>(-1);

// Where a value's gradient will stand.
struct TapeSlot {
  Shape shape;
  DType dtype;
  std::size_t maker;           // the record that made it, or kLeaf
  const Parameter* parameter;  // of a parameter's leaf
};

struct TapeRecord {
  OpName op;
  std::int32_t path;
  std::size_t first_input;
  std::size_t inputs;
  std::int32_t first_output;
  std::int32_t outputs;
  void* closure;  // null once destroyed
  Tape::Invoke invoke;
  Tape::Destroy destroy;
};

struct Tape::State {
  std::vector<TapeSlot> slots;
  std::vector<TapeRecord> records;
  std::vector<std::int32_t> inputs;  // slots of all records' inputs, one after another
  std::vector<std::int32_t> leaves;
  std::unordered_map<const Parameter*, std::int32_t> parameter_slots;
  ClosureArena arena;

  std::deque<std::string> paths{""};  // kept over clear(): the same modules run again
  std::unordered_map<std::string_view, std::int32_t> path_index;
  std::int32_t path = 0;

  std::vector<Array> gradients;     // by slot, during backward
  std::vector<char> input_is_done;  // by input of the record whose backward runs

  // Begins where no earlier tape at this address can have ended: a Var that outlived its tape is
  // refused, not misread.
  std::uint32_t generation = static_cast<std::uint32_t>(
      std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  bool spent = false;
  ValueObserver* value_observer = nullptr;
  GradientObserver* gradient_observer = nullptr;  // during backward
  std::unique_ptr<Tape> inner;                    // for checkpoint(), once it was asked for

  std::int32_t new_slot(const Array& value, std::size_t maker, const Parameter* parameter) {
    slots.push_back({value.shape(), value.dtype(), maker, parameter});
    return static_cast<std::int32_t>(slots.size() - 1);
  }
  void destroy_closure(TapeRecord& record) {
    if (record.closure) record.destroy(record.closure);
    record.closure = nullptr;
  }
  void require_unspent(const char* what) const {
    if (spent) {
      throw UsageError(
          std::string(what) +
          ": the tape is spent, backward() has run on it; call clear() and record again");
    }
  }
  // The gradient in the shape of the input, summed over what was broadcast.
  static Array fitted(Array gradient, const TapeSlot& place, const TapeRecord& record, int input);
  void run_backward(Tape& tape, std::size_t index);
  void require_complete(const TapeRecord& record) const;
};

}  // namespace attune
