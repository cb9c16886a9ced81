#include "attune/autodiff/gradients.h"

#include <cmath>

#include "attune/core/error.h"
#include "kernels/elementwise.h"

namespace attune {

const Gradients::Entry* Gradients::entry_of(const Parameter& parameter) const {
  // Tapes touch parameters nearly in the order of their creation: start where this one would then
  // stand.
  const std::size_t count = entries_.size();
  const auto guess = static_cast<std::size_t>(parameter.index());
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[(guess + i) % count];
    if (entry.parameter == &parameter) return &entry;
  }
  return nullptr;
}

const Array* Gradients::find(const Parameter& parameter) const {
  const Entry* entry = entry_of(parameter);
  return entry ? &entry->gradient : nullptr;
}

const Array* Gradients::find(const Var& leaf) const {
  if (leaf.tape() != tape_ || leaf.generation() != generation_) return nullptr;
  for (const Entry& entry : entries_) {
    if (entry.slot == leaf.slot()) return &entry.gradient;
  }
  return nullptr;
}

const Array& Gradients::operator[](const Parameter& parameter) const {
  if (const Array* gradient = find(parameter)) return *gradient;
  throw UsageError("gradients: the tape did not touch the parameter " + parameter.name());
}

const Array& Gradients::operator[](const Var& leaf) const {
  if (const Array* gradient = find(leaf)) return *gradient;
  throw UsageError("gradients: the value " + to_string(leaf.shape()) +
                   " is not a leaf of this tape");
}

double Gradients::global_norm() const {
  double sum = 0;
  for (const Entry& entry : entries_) sum += kernels::sum_of_squares(entry.gradient);
  return std::sqrt(sum);
}

Gradients& Gradients::operator+=(const Gradients& other) {
  for (const Entry& theirs : other.entries_) {
    if (theirs.parameter == nullptr) {
      throw UsageError("gradients: leaves of two tapes cannot be added, only parameters can");
    }
    const Entry* found = entry_of(*theirs.parameter);
    if (found == nullptr) {
      entries_.push_back(theirs);
      continue;
    }
    Entry& mine = entries_[static_cast<std::size_t>(found - entries_.data())];
    if (mine.gradient.is_shared()) mine.gradient = mine.gradient.clone();
    kernels::add_into(mine.gradient, theirs.gradient);
    mine.reached |= theirs.reached;
  }
  return *this;
}

}  // namespace attune
