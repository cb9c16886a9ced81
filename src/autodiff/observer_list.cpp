#include "attune/autodiff/observer_list.h"

namespace attune {

void ObserverList::clear() {
  values_.clear();
  gradients_.clear();
}

void ObserverList::add(ValueObserver* values, GradientObserver* gradients) {
  if (values) values_.push_back(values);
  if (gradients) gradients_.push_back(gradients);
}

void ObserverList::on_record(const Tape& tape, const RecordView& record,
                             std::span<const Array> outputs) {
  for (ValueObserver* observer : values_) observer->on_record(tape, record, outputs);
}

void ObserverList::on_output_gradients(const Tape& tape, const RecordView& record,
                                       std::span<const Array> dy) {
  for (GradientObserver* observer : gradients_) observer->on_output_gradients(tape, record, dy);
}

void ObserverList::on_input_gradients(const Tape& tape, const RecordView& record) {
  for (GradientObserver* observer : gradients_) observer->on_input_gradients(tape, record);
}

}  // namespace attune
