#pragma once

#include "attune/autodiff/var.h"

// Element-wise arithmetic with NumPy broadcasting. Both operands have one dtype; shapes align at
// the last axis. Errors: ShapeError "add: [2, 3] and [4] do not broadcast", or where dtypes differ.
// Where dloss/dy is 0, the gradients are 0 even beside an infinite operand, as in unary.h.
namespace attune {

[[nodiscard]] Var add(const Var& a, const Var& b);
[[nodiscard]] Var subtract(const Var& a, const Var& b);
[[nodiscard]] Var multiply(const Var& a, const Var& b);
[[nodiscard]] Var divide(const Var& a, const Var& b);
// The larger (smaller) of the two; where they are equal the gradient goes to a.
[[nodiscard]] Var maximum(const Var& a, const Var& b);
[[nodiscard]] Var minimum(const Var& a, const Var& b);

[[nodiscard]] Var add(const Var& a, double b);
[[nodiscard]] Var multiply(const Var& a, double b);
[[nodiscard]] Var negate(const Var& a);
// a^exponent for a constant exponent; a >= 0 where the exponent is not a whole number. d/da a^0 =
// 0, also at a = 0.
[[nodiscard]] Var power(const Var& a, double exponent);

inline Var operator+(const Var& a, const Var& b) { return add(a, b); }
inline Var operator-(const Var& a, const Var& b) { return subtract(a, b); }
inline Var operator*(const Var& a, const Var& b) { return multiply(a, b); }
inline Var operator/(const Var& a, const Var& b) { return divide(a, b); }
inline Var operator-(const Var& a) { return negate(a); }
inline Var operator+(const Var& a, double b) { return add(a, b); }
inline Var operator+(double a, const Var& b) { return add(b, a); }
inline Var operator-(const Var& a, double b) { return add(a, -b); }
inline Var operator-(double a, const Var& b) { return add(negate(b), a); }
inline Var operator*(const Var& a, double b) { return multiply(a, b); }
inline Var operator*(double a, const Var& b) { return multiply(b, a); }
inline Var operator/(const Var& a, double b) { return multiply(a, 1 / b); }

}  // namespace attune
