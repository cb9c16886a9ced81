#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attune/autodiff/parameter.h"
#include "attune/autodiff/var.h"

namespace attune {

// The result of a backward pass: a value you own. It has one entry for each leaf and each parameter
// that the tape touched; what the loss did not reach has gradient zero and is marked so.
class Gradients final {
 public:
  struct Entry {
    const Parameter* parameter;  // null: a leaf
    std::int32_t slot;           // of a leaf
    Array gradient;              // shape and dtype of the value
    bool reached;                // false: the loss does not depend on it; the gradient is zero
  };

  // Throws UsageError where the tape that made these gradients did not hold it.
  [[nodiscard]] const Array& operator[](const Parameter& parameter) const;
  // A leaf, or a parameter's Var.
  [[nodiscard]] const Array& operator[](const Var& leaf) const;
  // Null where there is none.
  [[nodiscard]] const Array* find(const Parameter& parameter) const;
  [[nodiscard]] const Array* find(const Var& leaf) const;

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::vector<Entry>& entries() { return entries_; }
  // sqrt of the sum of squares of all gradients, accumulated in double, in entry order.
  [[nodiscard]] double global_norm() const;

  // Adds parameter gradients of the same model: entry by entry, in this object's order, then what
  // only `other` has. Leaves are refused with UsageError: they belong to one tape.
  Gradients& operator+=(const Gradients& other);

 private:
  friend class Tape;
  [[nodiscard]] const Entry* entry_of(const Parameter& parameter) const;

  std::vector<Entry> entries_;
  // Whose slots the entries name.
  const Tape* tape_ = nullptr;
  std::uint32_t generation_ = 0;
};

}  // namespace attune
