#include "attune/ops/arithmetic.h"

#include "attune/autodiff/tape.h"
#include "kernels/binary.h"
#include "ops/check.h"

namespace attune {

// da = dy, db = dy; InputGradients sums over what was broadcast, here and below.
Var add(const Var& a, const Var& b) {
  require_same_dtype("add", a.value(), b.value());
  return record("add", {a, b}, kernels::add(a.value(), b.value()),
                [](const Array& dy, InputGradients& dx) {
                  dx.add(0, dy);
                  dx.add(1, dy);
                });
}

// da = dy, db = -dy
Var subtract(const Var& a, const Var& b) {
  require_same_dtype("subtract", a.value(), b.value());
  return record("subtract", {a, b}, kernels::subtract(a.value(), b.value()),
                [](const Array& dy, InputGradients& dx) {
                  dx.add(0, dy);
                  if (dx.needs(1)) dx.add(1, kernels::multiply(dy, -1));
                });
}

// da = dy b, db = dy a
Var multiply(const Var& a, const Var& b) {
  require_same_dtype("multiply", a.value(), b.value());
  return record("multiply", {a, b}, kernels::multiply(a.value(), b.value()),
                [a = saved_for(b, a.value()), b = saved_for(a, b.value())](const Array& dy,
                                                                           InputGradients& dx) {
                  if (dx.needs(0)) dx.add(0, kernels::chain(dy, b));
                  if (dx.needs(1)) dx.add(1, kernels::chain(dy, a));
                });
}

// y = a / b: da = dy / b, db = -da y
Var divide(const Var& a, const Var& b) {
  require_same_dtype("divide", a.value(), b.value());
  Array y = kernels::divide(a.value(), b.value());
  return record("divide", {a, b}, y,
                [b_value = b.value(), y = saved_for(b, y)](const Array& dy, InputGradients& dx) {
                  const Array da = kernels::chain_divided(dy, b_value);
                  if (dx.needs(1)) dx.add(1, kernels::multiply(kernels::chain(da, y), -1));
                  dx.add(0, da);
                });
}

namespace {

using Choose = Array (*)(const Array&, const Array&);

// dy goes to the operand that was taken.
Var choose(OpName name, const Var& a, const Var& b, Choose value, Choose takes_first) {
  require_same_dtype(name.text, a.value(), b.value());
  Array y = value(a.value(), b.value());
  if (a.tape() == nullptr && b.tape() == nullptr) return y;
  return record(name, {a, b}, y,
                [first = takes_first(a.value(), b.value())](const Array& dy, InputGradients& dx) {
                  if (dx.needs(0)) dx.add(0, kernels::keep_where(first, dy));
                  if (dx.needs(1)) dx.add(1, kernels::keep_where_not(first, dy));
                });
}

}  // namespace

Var maximum(const Var& a, const Var& b) {
  return choose("maximum", a, b, kernels::maximum, kernels::maximum_takes_first);
}

Var minimum(const Var& a, const Var& b) {
  return choose("minimum", a, b, kernels::minimum, kernels::minimum_takes_first);
}

Var add(const Var& a, double b) {
  return record("add", {a}, kernels::add(a.value(), b),
                [](const Array& dy, InputGradients& dx) { dx.add(0, dy); });
}

Var multiply(const Var& a, double b) {
  return record("multiply", {a}, kernels::multiply(a.value(), b),
                [b](const Array& dy, InputGradients& dx) { dx.add(0, kernels::multiply(dy, b)); });
}

Var negate(const Var& a) {
  return record("negate", {a}, kernels::multiply(a.value(), -1),
                [](const Array& dy, InputGradients& dx) { dx.add(0, kernels::multiply(dy, -1)); });
}

Var power(const Var& a, double exponent) {
  return record("power", {a}, kernels::power(a.value(), exponent),
                [a = a.value(), exponent](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::power_backward(dy, a, exponent));
                });
}

}  // namespace attune
