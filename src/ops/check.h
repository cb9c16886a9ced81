#pragma once

#include <string>

#include "attune/autodiff/var.h"
#include "attune/core/error.h"

// What operations ask of their operands before they compute.
namespace attune {

inline void require_same_dtype(const char* operation, const Array& a, const Array& b) {
  if (a.dtype() != b.dtype()) {
    throw ShapeError(std::string(operation) + ": operands are " +
                     std::string(to_string(a.dtype())) + " " + to_string(a.shape()) + " and " +
                     std::string(to_string(b.dtype())) + " " + to_string(b.shape()) +
                     ", expected one dtype");
  }
}

// The axis counted from 0. Throws ShapeError "sum: axis 2 is outside [3, 5] of rank 2".
[[nodiscard]] inline std::size_t require_axis(const char* operation, const Shape& shape, int axis) {
  if (axis < -shape.rank() || axis >= shape.rank()) {
    throw ShapeError(std::string(operation) + ": axis " + std::to_string(axis) + " is outside " +
                     to_string(shape) + " of rank " + std::to_string(shape.rank()));
  }
  return shape.normalized(axis);
}

// What a backward saves for the gradient of another input: the value, or nothing if that input is
// constant.
[[nodiscard]] inline Array saved_for(const Var& input, const Array& value) {
  return input.tape() != nullptr ? value : Array();
}

}  // namespace attune
