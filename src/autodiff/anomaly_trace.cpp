#include "attune/autodiff/anomaly_trace.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "attune/core/text.h"
#include "kernels/magnitude.h"

namespace attune {
namespace {

using kernels::Magnitude;
using kernels::magnitude;

std::string place_text(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; index /= shape[axis])
    place[static_cast<std::size_t>(axis)] = index % shape[axis];
  std::string text;
  for (const std::int64_t i : place) text += (text.empty() ? "[" : ", ") + std::to_string(i);
  return text.empty() ? "" : " at " + text + "]";
}

// "nan at [0, 3], 2 of 96 elements"; empty where all elements are finite.
std::string nonfinite_text(const Array& x, bool may_be_masked) {
  return dispatch(x.dtype(), [&]<class T>() -> std::string {
    const std::span<const T> values = x.data<T>();
    std::string first;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_masked = may_be_masked && std::isinf(values[i]) && values[i] < 0;
      if (std::isfinite(values[i]) || is_masked || ++count > 1) continue;
      const char* what = std::isnan(values[i]) ? "nan" : values[i] > 0 ? "inf" : "-inf";
      first = what + place_text(x.shape(), static_cast<std::int64_t>(i));
    }
    if (count == 0) return "";
    return first + ", " + format_count(count) + " of " + format_count(x.size()) + " elements";
  });
}

std::string op_in_module(const Anomaly& anomaly) {
  return anomaly.op + (anomaly.path.empty() ? "" : " in " + anomaly.path);
}

// The input that an op's numbers most likely came from: the largest one that another op made, or
// else the largest leaf. Null: it has constants alone.
const TracedValue* largest_input(const Tape& tape, const std::vector<TracedValue>& inputs) {
  const auto rank = [&](const TracedValue& value) {
    const bool is_made = tape.maker_of(value.slot) < tape.size();
    return std::pair(is_made, value.largest.value_or(-1));
  };
  const TracedValue* largest = nullptr;
  for (const TracedValue& input : inputs) {
    if (input.slot >= 0 && (!largest || rank(input) > rank(*largest))) largest = &input;
  }
  return largest;
}

}  // namespace

std::string to_string(const Anomaly& anomaly) {
  const std::string shape = to_string(anomaly.value.shape);
  switch (anomaly.kind) {
    case Anomaly::Kind::parameter:
      return anomaly.value.maker + " " + shape + " is not finite: " + anomaly.value.nonfinite +
             " (first read by " + op_in_module(anomaly) + ")";
    case Anomaly::Kind::forward:
      return op_in_module(anomaly) + " gives " + anomaly.value.nonfinite + " of its output " +
             shape;
    case Anomaly::Kind::backward:
      return "the backward pass of " + op_in_module(anomaly) + " gives " + anomaly.value.nonfinite +
             " of the gradient of its input " + std::to_string(anomaly.place) + " " + shape;
  }
  return "";
}

void AnomalyTrace::clear() {
  for (Table& table : tables_) table.slots.clear();
  anomaly_.reset();
}

AnomalyTrace::Table& AnomalyTrace::table_of(const Tape& tape) {
  for (Table& table : tables_) {
    if (table.tape == &tape) return table;
  }
  return tables_.emplace_back(Table{&tape, {}});
}

AnomalyTrace::Slot& AnomalyTrace::slot_of(Table& table, std::int32_t slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= table.slots.size()) table.slots.resize(index + 1);
  return table.slots[index];
}

AnomalyTrace::Seen AnomalyTrace::seen(std::int32_t slot, const std::string& maker) const {
  if (tables_.empty() || slot < 0) return {};
  const std::vector<Slot>& slots = tables_.front().slots;
  if (static_cast<std::size_t>(slot) >= slots.size()) return {};
  const Slot& found = slots[static_cast<std::size_t>(slot)];
  if (found.maker != maker) return {};
  Seen seen;
  if (found.largest != kUnseen) seen.largest = found.largest;
  if (found.largest_gradient != kUnseen) seen.largest_gradient = found.largest_gradient;
  return seen;
}

void AnomalyTrace::on_record(const Tape& tape, const RecordView& record,
                             std::span<const Array> outputs) {
  if (anomaly_) return;
  Table& table = table_of(tape);
  if (record.index == 0) table.slots.clear();  // the tape was cleared meanwhile
  look_at_parameters(tape, table, record);
  if (anomaly_) return;
  const bool is_masked =
      std::string_view(record.op.text) == "where" ||
      std::any_of(record.inputs.begin(), record.inputs.end(),
                  [&](std::int32_t slot) { return slot >= 0 && slot_of(table, slot).is_masked; });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Magnitude found = magnitude(outputs[i]);
    Slot& slot = slot_of(table, record.first_output + static_cast<std::int32_t>(i));
    slot.largest = found.largest;
    slot.maker = record.op.text;
    slot.is_masked = is_masked && found.negative_infinities > 0;
    const std::int64_t wrong = found.nonfinite() - (is_masked ? found.negative_infinities : 0);
    if (wrong > 0 && !anomaly_)
      anomaly_ =
          described(tape, table, Anomaly::Kind::forward, record, static_cast<int>(i), outputs[i]);
  }
}

// A leaf is seen where an op reads it; one of a parameter then has a value to look at.
void AnomalyTrace::look_at_parameters(const Tape& tape, Table& table, const RecordView& record) {
  for (std::size_t i = 0; i < record.inputs.size(); ++i) {
    const std::int32_t slot = record.inputs[i];
    if (slot < 0) continue;
    const Parameter* parameter = tape.parameter_of(slot);
    if (parameter == nullptr || !slot_of(table, slot).maker.empty()) continue;
    const Magnitude found = magnitude(parameter->value());
    Slot& seen = slot_of(table, slot);
    seen.maker = "parameter " + parameter->name();
    seen.largest = found.largest;
    if (found.nonfinite() == 0) continue;
    anomaly_ = described(tape, table, Anomaly::Kind::parameter, record, static_cast<int>(i),
                         parameter->value());
    return;
  }
}

// What the gradient of a loss starts from is given by the caller; all others come from backwards.
void AnomalyTrace::on_output_gradients(const Tape& tape, const RecordView& record,
                                       std::span<const Array> dy) {
  if (anomaly_) return;
  Table& table = table_of(tape);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    Slot& slot = slot_of(table, record.first_output + static_cast<std::int32_t>(i));
    if (slot.largest_gradient == kUnseen && !dy[i].is_null())
      slot.largest_gradient = magnitude(dy[i]).largest;
  }
}

void AnomalyTrace::on_input_gradients(const Tape& tape, const RecordView& record) {
  Table& table = table_of(tape);
  for (std::size_t i = 0; i < record.inputs.size() && !anomaly_; ++i) {
    if (record.inputs[i] >= 0) look_at_gradient(tape, table, record, static_cast<int>(i));
  }
}

void AnomalyTrace::look_at_gradient(const Tape& tape, Table& table, const RecordView& record,
                                    int input) {
  const std::int32_t slot = record.inputs[static_cast<std::size_t>(input)];
  const Array& gradient = tape.gradient_at(slot);
  if (gradient.is_null()) return;
  const Magnitude found = magnitude(gradient);
  slot_of(table, slot).largest_gradient = found.largest;
  if (found.nonfinite() > 0)
    anomaly_ = described(tape, table, Anomaly::Kind::backward, record, input, gradient);
}

TracedValue AnomalyTrace::traced(const Tape& tape, const Table& table, std::int32_t slot) {
  TracedValue value;
  value.slot = slot;
  if (slot < 0) {
    value.maker = "constant";
    return value;
  }
  const std::size_t maker = tape.maker_of(slot);
  if (maker < tape.size()) value.path = tape.record_at(maker).path;
  value.maker = tape.describe(slot);
  if (value.maker == "leaf") value.maker = "input";
  value.shape = tape.shape_of(slot);
  if (static_cast<std::size_t>(slot) >= table.slots.size()) return value;
  const Slot& seen = table.slots[static_cast<std::size_t>(slot)];
  if (seen.largest != kUnseen) value.largest = seen.largest;
  if (seen.largest_gradient != kUnseen) value.largest_gradient = seen.largest_gradient;
  return value;
}

Anomaly AnomalyTrace::described(const Tape& tape, const Table& table, Anomaly::Kind kind,
                                const RecordView& record, int place, const Array& values) {
  const bool is_backward = kind == Anomaly::Kind::backward;
  Anomaly anomaly{.kind = kind,
                  .op = record.op.text,
                  .path = std::string(record.path),
                  .place = place,
                  .value = {},
                  .outputs = {},
                  .inputs = {},
                  .chain = {}};
  for (std::int32_t i = 0; i < record.outputs; ++i)
    anomaly.outputs.push_back(traced(tape, table, record.first_output + i));
  for (const std::int32_t slot : record.inputs) anomaly.inputs.push_back(traced(tape, table, slot));
  auto& values_of = kind == Anomaly::Kind::forward ? anomaly.outputs : anomaly.inputs;
  TracedValue& wrong = values_of[static_cast<std::size_t>(place)];
  const bool may_be_masked = !is_backward &&
                             static_cast<std::size_t>(wrong.slot) < table.slots.size() &&
                             std::string_view(record.op.text) == "where";
  wrong.nonfinite = nonfinite_text(values, may_be_masked);
  anomaly.value = wrong;
  is_backward ? follow_readers(tape, table, anomaly) : follow_inputs(tape, table, anomaly);
  return anomaly;
}

void AnomalyTrace::follow_inputs(const Tape& tape, const Table& table, Anomaly& anomaly) {
  anomaly.chain.reserve(kLongestChain);
  const TracedValue* from = largest_input(tape, anomaly.inputs);
  while (from && anomaly.chain.size() < kLongestChain) {
    const std::size_t maker = tape.maker_of(from->slot);
    if (maker >= tape.size()) return;
    std::vector<TracedValue> inputs;
    for (const std::int32_t slot : tape.record_at(maker).inputs)
      inputs.push_back(traced(tape, table, slot));
    const TracedValue* next = largest_input(tape, inputs);
    if (!next) return;
    anomaly.chain.push_back(*next);
    from = &anomaly.chain.back();
  }
}

void AnomalyTrace::follow_readers(const Tape& tape, const Table& table, Anomaly& anomaly) {
  std::size_t index = tape.maker_of(anomaly.outputs.front().slot);
  while (anomaly.chain.size() < kLongestChain) {
    const RecordView record = tape.record_at(index);
    const auto reads_it = [&](std::int32_t slot) {
      return slot >= record.first_output && slot < record.first_output + record.outputs;
    };
    std::optional<TracedValue> largest;
    std::size_t next = tape.size();
    for (std::size_t reader = index + 1; reader < tape.size(); ++reader) {
      const RecordView other = tape.record_at(reader);
      if (std::none_of(other.inputs.begin(), other.inputs.end(), reads_it)) continue;
      TracedValue output = traced(tape, table, other.first_output);
      if (!output.largest_gradient) continue;  // the loss does not depend on it
      if (largest && *output.largest_gradient <= *largest->largest_gradient) continue;
      largest = std::move(output);
      next = reader;
    }
    if (!largest) return;
    anomaly.chain.push_back(*largest);
    index = next;
  }
}

}  // namespace attune
