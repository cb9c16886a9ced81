#pragma once

#include <cstdint>
#include <utility>

#include "attune/array/array.h"

namespace attune {

class Tape;

// A value and, if it was recorded, its place on a tape. Cheap to copy (shares the array). value()
// is always safe to read and keep, also after the tape was spent or cleared. A Var without a tape
// is a constant: ops on constants record nothing.
class Var final {
 public:
  Var() = default;
  Var(Array constant) : value_(std::move(constant)) {}  // NOLINT: an array is a constant

  [[nodiscard]] const Array& value() const& { return value_; }
  [[nodiscard]] Array value() && { return std::move(value_); }
  [[nodiscard]] const Shape& shape() const { return value_.shape(); }
  [[nodiscard]] DType dtype() const { return value_.dtype(); }
  [[nodiscard]] bool is_null() const { return value_.is_null(); }
  // Null: a constant.
  [[nodiscard]] Tape* tape() const { return tape_; }
  // The same value without its place on the tape: no gradient flows through it.
  [[nodiscard]] Var detached() const { return Var(value_); }

  // Where the tape keeps this value's gradient; for Tape and Gradients.
  [[nodiscard]] std::int32_t slot() const { return slot_; }
  [[nodiscard]] std::uint32_t generation() const { return generation_; }

 private:
  friend class Tape;
  Var(Array value, Tape* tape, std::int32_t slot, std::uint32_t generation)
      : value_(std::move(value)), tape_(tape), slot_(slot), generation_(generation) {}

  Array value_;
  Tape* tape_ = nullptr;
  std::int32_t slot_ = -1;
  std::uint32_t generation_ = 0;
};

}  // namespace attune
