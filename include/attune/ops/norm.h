#pragma once

#include "attune/autodiff/var.h"

namespace attune {

// Layer normalisation (Ba, Kiros & Hinton 2016) over the last axis, of width n; two passes, so that
// a large mean loses no digits:
//   y = (x - mean) / sqrt(var + eps) * gain + shift,   var = sum (x - mean)^2 / n
// gain, shift: [n], or null for 1 and 0.
[[nodiscard]] Var layer_norm(const Var& x, const Var& gain, const Var& shift, double eps = 1e-5);
// Root mean square normalisation (Zhang & Sennrich 2019):
//   y = x / sqrt(mean(x^2) + eps) * gain
[[nodiscard]] Var rms_norm(const Var& x, const Var& gain, double eps = 1e-6);

// A residual stream with a branch added to it, and what the next layer reads of it.
struct ResidualNorm {
  Var sum;         // x + branch
  Var normalised;  // the norm of sum
};
// The addition and the norm in one pass over the rows, forward and backward; bit for bit what the
// two give one after the other. x and branch have one shape.
[[nodiscard]] ResidualNorm add_layer_norm(const Var& x, const Var& branch, const Var& gain,
                                          const Var& shift, double eps = 1e-5);
[[nodiscard]] ResidualNorm add_rms_norm(const Var& x, const Var& branch, const Var& gain,
                                        double eps = 1e-6);

}  // namespace attune
