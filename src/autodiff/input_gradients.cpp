#include <string>
#include <utility>

#include "autodiff/tape_state.h"
#include "kernels/elementwise.h"

namespace attune {

std::size_t InputGradients::place_of(int input) const {
  const TapeRecord& record = tape_.state_->records[record_];
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

Array Tape::State::fitted(Array gradient, const TapeSlot& place, const TapeRecord& record,
                          int input) {
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

GradientObserver* InputGradients::observer() const { return tape_.state_->gradient_observer; }

}  // namespace attune
