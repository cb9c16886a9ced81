#include "attune/autodiff/tape.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "attune/core/error.h"
#include "autodiff/closure_arena.h"
#include "kernels/elementwise.h"

namespace attune {
namespace {

constexpr std::size_t kLeaf = static_cast<std::size_t>(-1);

// Where a value's gradient will stand.
struct Slot {
  Shape shape;
  DType dtype;
  std::size_t maker;           // the record that made it, or kLeaf
  const Parameter* parameter;  // of a parameter's leaf
};

struct Record {
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

}  // namespace

struct Tape::State {
  std::vector<Slot> slots;
  std::vector<Record> records;
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

  std::int32_t new_slot(const Array& value, std::size_t maker, const Parameter* parameter) {
    slots.push_back({value.shape(), value.dtype(), maker, parameter});
    return static_cast<std::int32_t>(slots.size() - 1);
  }
  void destroy_closure(Record& record) {
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
  static Array fitted(Array gradient, const Slot& place, const Record& record, int input);
  void run_backward(Tape& tape, std::size_t index, GradientObserver* observer);
  void require_complete(const Record& record) const;
};

Tape::Tape() : state_(std::make_unique<State>()) {}
Tape::~Tape() { clear(); }

void Tape::clear() {
  // Closures go in reverse, so that arrays are freed in the order a backward pass would free them.
  for (auto record = state_->records.rbegin(); record != state_->records.rend(); ++record) {
    state_->destroy_closure(*record);
  }
  state_->records.clear();
  state_->slots.clear();
  state_->inputs.clear();
  state_->leaves.clear();
  state_->parameter_slots.clear();
  state_->gradients.clear();
  state_->arena.reset();
  state_->spent = false;
  ++state_->generation;
}

Var Tape::leaf(Array value) {
  state_->require_unspent("leaf");
  const std::int32_t slot = state_->new_slot(value, kLeaf, nullptr);
  state_->leaves.push_back(slot);
  return Var(std::move(value), this, slot, state_->generation);
}

Var Tape::parameter(const Parameter& parameter) {
  if (parameter.is_frozen()) return Var(parameter.value());
  state_->require_unspent("parameter");
  const auto [place, is_new] = state_->parameter_slots.try_emplace(&parameter, -1);
  if (is_new) {
    place->second = state_->new_slot(parameter.value(), kLeaf, &parameter);
    state_->leaves.push_back(place->second);
  }
  return Var(parameter.value(), this, place->second, state_->generation);
}

void* Tape::reserve(std::size_t bytes, std::size_t alignment) {
  state_->require_unspent("record");
  return state_->arena.reserve(bytes, alignment);
}

void Tape::commit(OpName name, std::span<const Var* const> inputs, std::span<const Array> outputs,
                  std::span<Var> recorded, void* closure, Invoke invoke, Destroy destroy) {
  State& state = *state_;
  const std::size_t index = state.records.size();
  Record record{name,
                state.path,
                state.inputs.size(),
                inputs.size(),
                static_cast<std::int32_t>(state.slots.size()),
                static_cast<std::int32_t>(outputs.size()),
                closure,
                invoke,
                destroy};
  for (const Var* input : inputs) {
    state.inputs.push_back(input->tape() ? input->slot() : -1);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::int32_t slot = state.new_slot(outputs[i], index, nullptr);
    recorded[i] = Var(outputs[i], this, slot, state.generation);
  }
  state.records.push_back(record);
  if (state.value_observer) state.value_observer->on_record(*this, record_at(index), outputs);
}

Gradients Tape::backward(const Var& y, GradientObserver* observer) {
  if (y.is_null() || y.value().size() != 1) {
    throw UsageError("backward: the value " + to_string(y.shape()) +
                     " is not a scalar; give a seed of its shape");
  }
  return backward(y, Array::full(y.shape(), 1, y.dtype()), observer);
}

Gradients Tape::backward(const Var& y, Array seed, GradientObserver* observer) {
  State& state = *state_;
  state.require_unspent("backward");
  if (!is_current(y)) {
    throw UsageError("backward: the value " + to_string(y.shape()) +
                     " was not recorded on this tape since its last clear()");
  }
  if (seed.shape() != y.shape() || seed.dtype() != y.dtype()) {
    throw ShapeError("backward: the seed " + to_string(seed.shape()) + " is not of the shape " +
                     to_string(y.shape()) + " and dtype of the value");
  }
  state.spent = true;
  state.gradients.assign(state.slots.size(), Array());
  state.gradients[static_cast<std::size_t>(y.slot())] = std::move(seed);
  for (std::size_t index = state.records.size(); index-- > 0;) {
    state.run_backward(*this, index, observer);
    state.destroy_closure(state.records[index]);
  }

  Gradients result;
  result.tape_ = this;
  result.generation_ = state.generation;
  result.entries().reserve(state.leaves.size());
  for (const std::int32_t slot : state.leaves) {
    const Slot& leaf = state.slots[static_cast<std::size_t>(slot)];
    Array& gradient = state.gradients[static_cast<std::size_t>(slot)];
    const bool reached = !gradient.is_null();
    if (!reached) gradient = Array::zeros(leaf.shape, leaf.dtype);
    result.entries().push_back({leaf.parameter, slot, std::move(gradient), reached});
  }
  state.gradients.clear();
  return result;
}

void Tape::State::run_backward(Tape& tape, std::size_t index, GradientObserver* observer) {
  const Record& record = records[index];
  const std::span<Array> dy(gradients.data() + record.first_output,
                            static_cast<std::size_t>(record.outputs));
  if (std::all_of(dy.begin(), dy.end(), [](const Array& g) { return g.is_null(); })) return;
  if (observer) observer->on_output_gradients(tape, tape.record_at(index), dy);
  input_is_done.assign(record.inputs, 0);
  InputGradients dx(tape, index);
  record.invoke(record.closure, dy, dx);
  require_complete(record);
  std::fill(dy.begin(), dy.end(), Array());
}

void Tape::State::require_complete(const Record& record) const {
  for (std::size_t i = 0; i < record.inputs; ++i) {
    if (inputs[record.first_input + i] >= 0 && !input_is_done[i]) {
      throw InternalError(
          std::string(record.op.text) + ": its backward gives no gradient for input " +
          std::to_string(i) + ", which needs one" +
          (record.path ? " (in " + paths[static_cast<std::size_t>(record.path)] + ")" : ""));
    }
  }
}

std::size_t InputGradients::place_of(int input) const {
  const Record& record = tape_.state_->records[record_];
  if (input < 0 || static_cast<std::size_t>(input) >= record.inputs) {
    throw InternalError(std::string(record.op.text) + ": its backward names input " +
                        std::to_string(input) + " of " + std::to_string(record.inputs));
  }
  return record.first_input + static_cast<std::size_t>(input);
}

bool InputGradients::needs(int input) const { return tape_.state_->inputs[place_of(input)] >= 0; }

void InputGradients::none(int input) {
  Tape::State& state = *tape_.state_;
  state.input_is_done[place_of(input) - state.records[record_].first_input] = 1;
}

void InputGradients::add(int input, Array gradient) {
  none(input);
  if (!needs(input)) return;
  Tape::State& state = *tape_.state_;
  const auto slot = static_cast<std::size_t>(state.inputs[place_of(input)]);
  gradient = state.fitted(std::move(gradient), state.slots[slot], state.records[record_], input);
  Array& sum = state.gradients[slot];
  if (sum.is_null()) {
    sum = std::move(gradient);
  } else if (!sum.is_shared()) {
    kernels::add_into(sum, gradient);
  } else if (!gradient.is_shared()) {
    kernels::add_into(gradient, sum);
    sum = std::move(gradient);
  } else {
    Array own = sum.clone();
    kernels::add_into(own, gradient);
    sum = std::move(own);
  }
}

Array Tape::State::fitted(Array gradient, const Slot& place, const Record& record, int input) {
  const auto found = [&] {
    return std::string(record.op.text) + ": its backward gives input " + std::to_string(input) +
           " of " + std::string(to_string(place.dtype)) + " " + to_string(place.shape) + " ";
  };
  if (gradient.is_null()) throw InternalError(found() + "a null gradient");
  if (gradient.dtype() != place.dtype) {
    throw InternalError(found() + "a gradient of " + std::string(to_string(gradient.dtype())));
  }
  if (gradient.shape() == place.shape) return gradient;
  try {
    return kernels::sum_to(gradient, place.shape);
  } catch (const ShapeError&) {
    throw InternalError(found() + "a gradient " + to_string(gradient.shape()));
  }
}

InputGradients::Place InputGradients::accumulate(int input) {
  none(input);
  Tape::State& state = *tape_.state_;
  if (!needs(input)) {
    throw InternalError(std::string(state.records[record_].op.text) + ": accumulate() of input " +
                        std::to_string(input) + ", which is constant; ask needs() first");
  }
  const auto slot = static_cast<std::size_t>(state.inputs[place_of(input)]);
  Array& sum = state.gradients[slot];
  if (sum.is_null()) {
    sum = Array::uninitialized(state.slots[slot].shape, state.slots[slot].dtype);
    return {sum, false};
  }
  if (sum.is_shared()) sum = sum.clone();
  return {sum, true};
}

void Tape::set_value_observer(ValueObserver* observer) { state_->value_observer = observer; }

bool Tape::is_current(const Var& var) const {
  return var.tape() == this && var.generation() == state_->generation;
}

std::size_t Tape::size() const { return state_->records.size(); }

RecordView Tape::record_at(std::size_t index) const {
  const Record& record = state_->records.at(index);
  return {index,
          record.op,
          state_->paths[static_cast<std::size_t>(record.path)],
          {state_->inputs.data() + record.first_input, record.inputs},
          record.first_output,
          record.outputs};
}

const Shape& Tape::shape_of(std::int32_t slot) const {
  return state_->slots.at(static_cast<std::size_t>(slot)).shape;
}

std::size_t Tape::maker_of(std::int32_t slot) const {
  const std::size_t maker = state_->slots.at(static_cast<std::size_t>(slot)).maker;
  return maker == kLeaf ? size() : maker;
}

std::string Tape::describe(std::int32_t slot) const {
  const Slot& place = state_->slots.at(static_cast<std::size_t>(slot));
  if (place.parameter) return "parameter " + place.parameter->name();
  return place.maker == kLeaf ? "leaf" : state_->records[place.maker].op.text;
}

PathGuard Tape::enter(std::string_view path) { return PathGuard(this, path); }

PathGuard::PathGuard(Tape* tape, std::string_view path) : tape_(tape) {
  if (tape_ == nullptr) return;
  Tape::State& state = *tape_->state_;
  previous_ = state.path;
  auto found = state.path_index.find(path);
  if (found == state.path_index.end()) {
    const std::string& stored =
        state.paths.emplace_back(path);  // a deque: the key's text stays where it is
    found =
        state.path_index.emplace(stored, static_cast<std::int32_t>(state.paths.size() - 1)).first;
  }
  state.path = found->second;
}

PathGuard::~PathGuard() {
  if (tape_) tape_->state_->path = previous_;
}

namespace detail {

std::span<const Var* const> list(OpName name, Inputs inputs,
                                 std::span<const Var*, kMaxListed> pointers) {
  if (inputs.size() > pointers.size()) {
    throw UsageError(std::string(name.text) + ": " + std::to_string(inputs.size()) +
                     " inputs are listed, at most " + std::to_string(kMaxListed) +
                     " can be; give record() a span of pointers");
  }
  std::size_t count = 0;
  for (const Var& input : inputs) pointers[count++] = &input;
  return pointers.first(count);
}

Tape* common_tape(OpName name, std::span<const Var* const> inputs) {
  Tape* tape = nullptr;
  for (const Var* input : inputs) {
    if (input->tape() == nullptr) continue;
    if (tape && tape != input->tape()) {
      throw UsageError(std::string(name.text) + ": its inputs were recorded on two tapes");
    }
    tape = input->tape();
    if (!tape->is_current(*input)) {
      throw UsageError(
          std::string(name.text) + ": an input " + to_string(input->shape()) +
          " was recorded before the tape's clear(); it can be read, not differentiated");
    }
  }
  return tape;
}

}  // namespace detail
}  // namespace attune
