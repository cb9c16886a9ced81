#include "attune/autodiff/tape.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "attune/core/error.h"
#include "autodiff/tape_state.h"

namespace attune {

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
  TapeRecord record{name,
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
  state.gradient_observer = observer;
  state.gradients.assign(state.slots.size(), Array());
  state.gradients[static_cast<std::size_t>(y.slot())] = std::move(seed);
  for (std::size_t index = state.records.size(); index-- > 0;) {
    state.run_backward(*this, index);
    state.destroy_closure(state.records[index]);
  }

  Gradients result;
  result.tape_ = this;
  result.generation_ = state.generation;
  result.entries().reserve(state.leaves.size());
  for (const std::int32_t slot : state.leaves) {
    const TapeSlot& leaf = state.slots[static_cast<std::size_t>(slot)];
    Array& gradient = state.gradients[static_cast<std::size_t>(slot)];
    const bool reached = !gradient.is_null();
    if (!reached) gradient = Array::zeros(leaf.shape, leaf.dtype);
    result.entries().push_back({leaf.parameter, slot, std::move(gradient), reached});
  }
  state.gradients.clear();
  return result;
}

void Tape::State::run_backward(Tape& tape, std::size_t index) {
  const TapeRecord& record = records[index];
  const std::span<Array> dy(gradients.data() + record.first_output,
                            static_cast<std::size_t>(record.outputs));
  if (std::all_of(dy.begin(), dy.end(), [](const Array& g) { return g.is_null(); })) return;
  if (gradient_observer) gradient_observer->on_output_gradients(tape, tape.record_at(index), dy);
  input_is_done.assign(record.inputs, 0);
  InputGradients dx(tape, index);
  record.invoke(record.closure, dy, dx);
  require_complete(record);
  if (gradient_observer) gradient_observer->on_input_gradients(tape, tape.record_at(index));
  std::fill(dy.begin(), dy.end(), Array());
}

void Tape::State::require_complete(const TapeRecord& record) const {
  for (std::size_t i = 0; i < record.inputs; ++i) {
    if (inputs[record.first_input + i] >= 0 && !input_is_done[i]) {
      throw InternalError(
          std::string(record.op.text) + ": its backward gives no gradient for input " +
          std::to_string(i) + ", which needs one" +
          (record.path ? " (in " + paths[static_cast<std::size_t>(record.path)] + ")" : ""));
    }
  }
}

void Tape::set_value_observer(ValueObserver* observer) { state_->value_observer = observer; }

Tape& Tape::inner() {
  if (!state_->inner) state_->inner = std::make_unique<Tape>();
  Tape& inner = *state_->inner;
  inner.clear();
  inner.set_value_observer(state_->value_observer);
  return inner;
}

std::vector<const Parameter*> Tape::parameters() const {
  std::vector<const Parameter*> parameters;
  for (const std::int32_t slot : state_->leaves) {
    const Parameter* parameter = state_->slots[static_cast<std::size_t>(slot)].parameter;
    if (parameter) parameters.push_back(parameter);
  }
  return parameters;
}

bool Tape::is_current(const Var& var) const {
  return var.tape() == this && var.generation() == state_->generation;
}

std::size_t Tape::size() const { return state_->records.size(); }

RecordView Tape::record_at(std::size_t index) const {
  const TapeRecord& record = state_->records.at(index);
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

const Parameter* Tape::parameter_of(std::int32_t slot) const {
  return state_->slots.at(static_cast<std::size_t>(slot)).parameter;
}

const Array& Tape::gradient_at(std::int32_t slot) const {
  if (state_->gradients.empty()) throw UsageError("gradient_at: no backward pass runs");
  return state_->gradients.at(static_cast<std::size_t>(slot));
}

std::string Tape::describe(std::int32_t slot) const {
  const TapeSlot& place = state_->slots.at(static_cast<std::size_t>(slot));
  if (place.parameter) return "parameter " + place.parameter->name();
  return place.maker == kLeaf ? "leaf" : state_->records[place.maker].op.text;
}

std::string_view Tape::path() const {
  return state_->paths[static_cast<std::size_t>(state_->path)];
}

PathGuard Tape::enter(std::string_view path) { return PathGuard(this, path); }

std::int32_t Tape::index_of_path(std::string_view path) {
  const auto found = state_->path_index.find(path);
  if (found != state_->path_index.end()) return found->second;
  const std::string& stored =
      state_->paths.emplace_back(path);  // a deque: the key's text stays where it is
  const auto index = static_cast<std::int32_t>(state_->paths.size() - 1);
  state_->path_index.emplace(stored, index);
  return index;
}

PathGuard::PathGuard(Tape* tape, std::string_view path) : tape_(tape) {
  if (tape_ == nullptr) return;
  previous_ = std::exchange(tape_->state_->path, tape_->index_of_path(path));
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
