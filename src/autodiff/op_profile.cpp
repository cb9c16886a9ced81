#include "attune/autodiff/op_profile.h"

#include "kernels/elementwise.h"

namespace attune {

OpCost& OpCost::operator+=(const OpCost& other) {
  calls += other.calls;
  forward_seconds += other.forward_seconds;
  backward_seconds += other.backward_seconds;
  output_bytes += other.output_bytes;
  output_elements += other.output_elements;
  output_squares += other.output_squares;
  gradient_squares += other.gradient_squares;
  return *this;
}

OpProfile::OpProfile(ProfileClock clock, bool measures_values)
    : clock_(std::move(clock)), measures_values_(measures_values), last_event_(clock_()) {}

void OpProfile::begin() { last_event_ = clock_(); }

void OpProfile::end() {
  end_backward();
  in_backward_ = nullptr;
}

// The clock is read again at the end of an event: what the profile itself does is no operation's.
void OpProfile::on_record(const Tape& /*tape*/, const RecordView& record,
                          std::span<const Array> outputs) {
  const double seconds = elapsed();
  OpCost& cost = cost_of(record);
  ++cost.calls;
  cost.forward_seconds += seconds;
  for (const Array& output : outputs) {
    cost.output_bytes += output.bytes();
    if (!measures_values_) continue;
    cost.output_elements += output.size();
    cost.output_squares += kernels::sum_of_squares(output);
  }
  last_event_ = clock_();
}

void OpProfile::on_output_gradients(const Tape& /*tape*/, const RecordView& record,
                                    std::span<const Array> dy) {
  end_backward();
  in_backward_ = &cost_of(record);
  for (const Array& gradient : dy) {
    if (measures_values_ && !gradient.is_null())
      in_backward_->gradient_squares += kernels::sum_of_squares(gradient);
  }
  last_event_ = clock_();
}

void OpProfile::end_backward() {
  if (in_backward_ != nullptr) in_backward_->backward_seconds += elapsed();
}

OpCost& OpProfile::cost_of(const RecordView& record) {
  const OpPlaceLess::View place{record.path, record.op.text};
  const auto found = costs_.find(place);
  return found != costs_.end() ? found->second : costs_[OpPlace(place.first, place.second)];
}

double OpProfile::elapsed() const {
  return std::chrono::duration<double>(clock_() - last_event_).count();
}

}  // namespace attune
