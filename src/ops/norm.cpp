#include "attune/ops/norm.h"

#include <string>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "kernels/norm.h"

namespace attune {
namespace {

void require_width(const std::string& operation, const Var& x) {
  if (x.shape().rank() == 0 || x.shape().last() == 0)
    throw ShapeError(operation + ": x " + to_string(x.shape()) +
                     " has nothing to normalise over, its last axis must hold at least 1");
}

void require_parameter(const std::string& operation, const char* name, const Var& parameter,
                       const Var& x) {
  if (parameter.is_null()) return;
  if (parameter.shape() != Shape{x.shape().last()})
    throw ShapeError(operation + ": " + name + " is " + to_string(parameter.shape()) + ", x " +
                     to_string(x.shape()) + " needs [" + std::to_string(x.shape().last()) + "]");
  if (parameter.dtype() != x.dtype())
    throw ShapeError(operation + ": " + name + " is " + std::string(to_string(parameter.dtype())) +
                     ", x is " + std::string(to_string(x.dtype())));
}

}  // namespace

Var layer_norm(const Var& x, const Var& gain, const Var& shift, double eps) {
  require_width("layer_norm", x);
  require_parameter("layer_norm", "gain", gain, x);
  require_parameter("layer_norm", "shift", shift, x);
  kernels::LayerNorm result = kernels::layer_norm(x.value(), gain.value(), shift.value(), eps);
  return record("layer_norm", {x, gain, shift}, result.y,
                [x = x.value(), gain = gain.value(), mean = result.mean, rstd = result.rstd](
                    const Array& dy, InputGradients& dx) {
                  auto gradients = kernels::layer_norm_backward(x, gain, mean, rstd, dy,
                                                                dx.needs(1) || dx.needs(2));
                  if (dx.needs(0)) dx.add(0, std::move(gradients.dx));
                  if (dx.needs(1)) dx.add(1, std::move(gradients.dgain));
                  if (dx.needs(2)) dx.add(2, std::move(gradients.dshift));
                });
}

Var rms_norm(const Var& x, const Var& gain, double eps) {
  require_width("rms_norm", x);
  require_parameter("rms_norm", "gain", gain, x);
  kernels::RmsNorm result = kernels::rms_norm(x.value(), gain.value(), eps);
  return record("rms_norm", {x, gain}, result.y,
                [x = x.value(), gain = gain.value(), rstd = result.rstd](const Array& dy,
                                                                         InputGradients& dx) {
                  auto gradients = kernels::rms_norm_backward(x, gain, rstd, dy, dx.needs(1));
                  if (dx.needs(0)) dx.add(0, std::move(gradients.dx));
                  if (dx.needs(1)) dx.add(1, std::move(gradients.dgain));
                });
}

}  // namespace attune
