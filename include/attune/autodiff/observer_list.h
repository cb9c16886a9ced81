#pragma once

#include <vector>

#include "attune/autodiff/tape.h"

namespace attune {

// Several observers of one tape as one; each sees everything, in the order they were added.
class ObserverList final : public ValueObserver, public GradientObserver {
 public:
  void clear();
  void add(ValueObserver* values, GradientObserver* gradients);  // null: not that

  // This list, or null where it is empty: what a tape takes.
  [[nodiscard]] ValueObserver* values() { return values_.empty() ? nullptr : this; }
  [[nodiscard]] GradientObserver* gradients() { return gradients_.empty() ? nullptr : this; }

  void on_record(const Tape& tape, const RecordView& record,
                 std::span<const Array> outputs) override;
  void on_output_gradients(const Tape& tape, const RecordView& record,
                           std::span<const Array> dy) override;
  void on_input_gradients(const Tape& tape, const RecordView& record) override;

 private:
  std::vector<ValueObserver*> values_;
  std::vector<GradientObserver*> gradients_;
};

}  // namespace attune
