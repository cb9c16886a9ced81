#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "attune/autodiff/gradients.h"
#include "attune/autodiff/parameter.h"
#include "attune/autodiff/var.h"

namespace attune {

// The name of an operation: a string literal.
struct OpName {
  const char* text;
  constexpr OpName(const char* literal) : text(literal) {}  // NOLINT: record("softmax", ...)
};

class GradientObserver;

// Where a backward closure puts the gradients of its operation's inputs.
class InputGradients final {
 public:
  // False for a constant input: its gradient need not be computed; add() would drop it.
  [[nodiscard]] bool needs(int input) const;
  // Declares that no gradient flows into this input, as for the index-like part of an operation.
  void none(int input);
  // Adds dloss/dinput. A gradient of the operation's broadcast shape is summed over the axes that
  // were broadcast. Throws InternalError where shape or dtype cannot be the input's.
  void add(int input, Array gradient);
  // For a matrix product that can add in place: a writable array of the input's shape, and whether
  // it already holds a sum (multiply with beta = 1) or is uninitialized (beta = 0; every element
  // must be written). Requires needs(input).
  struct Place {
    Array& gradient;
    bool holds_sum;
  };
  [[nodiscard]] Place accumulate(int input);
  // Who watches this backward pass, for an operation that runs one of its own; null: nobody.
  [[nodiscard]] GradientObserver* observer() const;

 private:
  friend class Tape;
  InputGradients(Tape& tape, std::size_t record) : tape_(tape), record_(record) {}
  // The place of the input among all records' inputs. Throws InternalError where there is no such
  // input.
  [[nodiscard]] std::size_t place_of(int input) const;
  Tape& tape_;
  std::size_t record_;
};

// What a tape knows of one recorded operation, for observers, profiles and graphs.
struct RecordView {
  std::size_t index;
  OpName op;
  std::string_view path;                 // module path, such as "block.0.attention"
  std::span<const std::int32_t> inputs;  // slots; -1 for a constant
  std::int32_t first_output;             // outputs have consecutive slots
  std::int32_t outputs;
};

// Sees every gradient as the backward pass meets it, last operation first.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  // Called when the gradients of an operation's outputs are complete, before its backward runs;
  // a null array is an output that the loss does not depend on.
  virtual void on_output_gradients(const Tape& tape, const RecordView& record,
                                   std::span<const Array> dy) = 0;
  // Called when that backward has run: tape.gradient_at() has what its inputs have by now.
  virtual void on_input_gradients(const Tape& tape, const RecordView& record) {
    static_cast<void>(tape), static_cast<void>(record);
  }
};

// Sees every value as the forward pass records it.
class ValueObserver {
 public:
  virtual ~ValueObserver() = default;
  virtual void on_record(const Tape& tape, const RecordView& record,
                         std::span<const Array> outputs) = 0;
};

class PathGuard;

// A Wengert list (Wengert 1964): operations in the order of their execution, which is a topological
// order of the graph; so backward() is one loop from the last record to the first, and no graph is
// ever walked recursively.
//
// The tape owns what the backward pass needs and nothing else: closures with the arrays they
// captured. A value that no closure captured is freed when its last Var goes. A tape is neither
// copied nor moved and outlives the Vars recorded on it. One thread at a time.
class Tape final {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // An input to differentiate by.
  [[nodiscard]] Var leaf(Array value);
  // One leaf a parameter and tape, however often it is asked for: tied weights just work. Frozen: a
  // constant.
  [[nodiscard]] Var parameter(const Parameter& parameter);

  // Differentiates y with respect to every leaf and parameter and spends the tape: a second call
  // throws UsageError. Without a seed y must have one element. The seed is dloss/dy.
  [[nodiscard]] Gradients backward(const Var& y, GradientObserver* observer = nullptr);
  [[nodiscard]] Gradients backward(const Var& y, Array seed, GradientObserver* observer = nullptr);

  // Forgets all records and keeps the capacity. Vars of before can be read, not differentiated.
  void clear();

  // Names the module in which the operations run until the guard goes, such as "block.0.attention".
  [[nodiscard]] PathGuard enter(std::string_view path);
  [[nodiscard]] std::string_view path() const;

  void set_value_observer(ValueObserver* observer);  // null: none

  // A tape of its own below this one, cleared, with the same observer of values; for an operation
  // that records what it does a second time.
  [[nodiscard]] Tape& inner();
  // Those that were asked for since the last clear(), in that order.
  [[nodiscard]] std::vector<const Parameter*> parameters() const;

  // Recorded since the last clear().
  [[nodiscard]] bool is_current(const Var& var) const;

  [[nodiscard]] std::size_t size() const;  // records
  [[nodiscard]] RecordView record_at(std::size_t index) const;
  [[nodiscard]] const Shape& shape_of(std::int32_t slot) const;
  // The record that made a slot; size() for a leaf.
  [[nodiscard]] std::size_t maker_of(std::int32_t slot) const;
  // The parameter whose leaf a slot is; null: it is none.
  [[nodiscard]] const Parameter* parameter_of(std::int32_t slot) const;
  // What has come to a slot's gradient so far; for a GradientObserver, while backward() runs. Null:
  // nothing yet, or an output whose backward has run.
  [[nodiscard]] const Array& gradient_at(std::int32_t slot) const;
  // "parameter block.0.attention.query.weight", "leaf", or the op's name.
  [[nodiscard]] std::string describe(std::int32_t slot) const;

  // --- for record() below ---
  using Invoke = void (*)(void* closure, std::span<const Array> dy, InputGradients& dx);
  using Destroy = void (*)(void* closure);
  // Space for a closure in the tape's own storage; no allocation in the steady state.
  [[nodiscard]] void* reserve(std::size_t bytes, std::size_t alignment);
  void commit(OpName name, std::span<const Var* const> inputs, std::span<const Array> outputs,
              std::span<Var> recorded, void* closure, Invoke invoke, Destroy destroy);

 private:
  friend class InputGradients;
  friend class PathGuard;
  [[nodiscard]] std::int32_t index_of_path(std::string_view path);
  struct State;
  std::unique_ptr<State> state_;
};

// Names the module in which operations run until the guard goes; does nothing without a tape.
class PathGuard final {
 public:
  PathGuard(Tape* tape, std::string_view path);
  ~PathGuard();
  PathGuard(const PathGuard&) = delete;
  PathGuard& operator=(const PathGuard&) = delete;

 private:
  Tape* tape_;
  std::int32_t previous_ = 0;
};

using Inputs = std::initializer_list<std::reference_wrapper<const Var>>;

namespace detail {
// The tape of the inputs; null when all are constants. Throws UsageError for two tapes or a Var
// from before clear().
[[nodiscard]] Tape* common_tape(OpName name, std::span<const Var* const> inputs);

inline constexpr std::size_t kMaxListed = 8;
// The addresses of the inputs, written into `pointers`. Throws UsageError for more than kMaxListed.
[[nodiscard]] std::span<const Var* const> list(OpName name, Inputs inputs,
                                               std::span<const Var*, kMaxListed> pointers);

template <class F>
inline constexpr bool kTakesSpan = std::is_invocable_v<F&, std::span<const Array>, InputGradients&>;

template <class F>
void invoke_closure(void* closure, std::span<const Array> dy, InputGradients& dx) {
  auto& backward = *static_cast<F*>(closure);
  if constexpr (kTakesSpan<F>) {
    backward(dy, dx);
  } else {
    backward(dy[0], dx);
  }
}
template <class F>
void destroy_closure(void* closure) {
  static_cast<F*>(closure)->~F();
}

template <class F>
void record_into(OpName name, std::span<const Var* const> inputs, std::span<const Array> outputs,
                 std::span<Var> recorded, F backward) {
  static_assert(std::is_nothrow_move_constructible_v<F>);
  static_assert(alignof(F) <= alignof(std::max_align_t), "what the tape's storage is aligned to");
  Tape* tape = common_tape(name, inputs);
  if (tape == nullptr) {
    for (std::size_t i = 0; i < outputs.size(); ++i) recorded[i] = Var(outputs[i]);
    return;
  }
  void* place = ::new (tape->reserve(sizeof(F), alignof(F))) F(std::move(backward));
  tape->commit(name, inputs, outputs, recorded, place, invoke_closure<F>, destroy_closure<F>);
}
}  // namespace detail

// Records an operation and its backward. The closure is called as backward(dy, dx): dy is dloss/dy,
// of y's shape; it adds dloss/dinput into dx. It captures the Arrays it needs by name ([y], never
// [=] or a Var): the capture list says what is saved.
//   Var exp(const Var& x) {
//     Array y = kernels::exp(x.value());
//     return record("exp", {x}, y, [y](const Array& dy, InputGradients& dx) { dx.add(0,
//     kernels::multiply(dy, y)); });
//   }
template <class F>
[[nodiscard]] Var record(OpName name, std::span<const Var* const> inputs, const Array& y,
                         F backward) {
  Var recorded;
  detail::record_into(name, inputs, std::span(&y, 1), std::span(&recorded, 1), std::move(backward));
  return recorded;
}
template <class F>
[[nodiscard]] Var record(OpName name, Inputs inputs, const Array& y, F backward) {
  const Var* pointers[detail::kMaxListed];
  return record(name, detail::list(name, inputs, pointers), y, std::move(backward));
}

// An operation with several outputs: the closure takes one gradient for each, std::span<const
// Array>; those that the loss does not depend on are null.
template <class F>
void record_many(OpName name, std::span<const Var* const> inputs, std::span<const Array> outputs,
                 std::span<Var> recorded, F backward) {
  static_assert(detail::kTakesSpan<F>);
  detail::record_into(name, inputs, outputs, recorded, std::move(backward));
}

}  // namespace attune
