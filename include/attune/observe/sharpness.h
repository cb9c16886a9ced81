#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "attune/autodiff/parameter.h"

namespace attune {

// The gradient by every parameter, by index, at the values the store holds now; float64.
using GradientFunction = std::function<std::vector<Array>()>;

struct SharpnessOptions {
  std::int64_t most_iterations = 200;  // each takes two gradients
  double tolerance = 1e-2;             // of |H v - lambda v| / |lambda|, at which it has converged
  // Length of the step of the central difference, in the space of all parameters. Longer: more of
  // the third derivative; shorter: more rounding.
  double step = 1e-3;
  std::uint64_t seed = 0;  // of the first direction
};
struct Sharpness {
  double eigenvalue = 0;  // the largest of the Hessian, with its sign
  // |H v - lambda v| for the unit vector v found: an eigenvalue lies no further from lambda. The
  // error is about its square, divided by the distance to the next eigenvalue.
  double residual = 0;
  std::int64_t iterations = 0;
  bool converged = false;
};
// The largest eigenvalue of the Hessian, from its products
//   H v = (g(w + e v) - g(w - e v)) / 2e,   |v| = 1,   lambda = v . H v,
// by power iteration that takes the best vector in the span of v, H v and the step before (Knyazev
// 2001). Plain power iteration finds the eigenvalue of largest absolute value, at initialisation
// often a negative one, and dwells on plateaus for hundreds of products. Plain gradient descent is
// stable up to a rate of 2 / lambda (Cohen et al. 2021). The parameters are as before afterwards,
// also when `gradient` throws. Throws ShapeError where they are not float64.
[[nodiscard]] Sharpness sharpness(ParameterStore& parameters, const GradientFunction& gradient,
                                  const SharpnessOptions& options = {});

}  // namespace attune
