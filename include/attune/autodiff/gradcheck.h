#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "attune/autodiff/var.h"

namespace attune {

// A function to check: any number of inputs to one output of any shape. It must be deterministic.
using DifferentiableFunction = std::function<Var(std::span<const Var> inputs)>;

struct GradcheckResult {
  double max_error = 0;  // largest |analytic - numeric| / scale, scale = the largest |gradient| of
                         // that input, at least 1e-3
  std::string worst;     // "input 1 [3, 2] at 4: analytic 0.25, numeric 0.5"
  [[nodiscard]] bool passes(double tolerance = 1e-6) const { return max_error <= tolerance; }
};

// Compares the tape's gradient of sum(w * f(inputs)), w fixed pseudo-random weights in [0.5, 1.5]
// with alternating signs, with central differences (f(x + h) - f(x - h)) / 2h, h = 1e-5 max(1,
// |x|), in float64, for every element of every input. Inputs must be float64 (ShapeError
// otherwise). An error that is not finite counts as infinite.
[[nodiscard]] GradcheckResult gradcheck(const DifferentiableFunction& f, std::vector<Array> inputs);

// The same along `directions` random normal directions through all inputs together: for functions
// with many inputs.
[[nodiscard]] GradcheckResult gradcheck_directions(const DifferentiableFunction& f,
                                                   std::vector<Array> inputs, int directions,
                                                   std::uint64_t seed = 0);

}  // namespace attune
