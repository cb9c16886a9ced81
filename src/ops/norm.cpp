#include "attune/ops/norm.h"

#include <string>
#include <utility>

#include "attune/autodiff/tape.h"
#include "kernels/norm.h"
#include "ops/check.h"

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

void require_branch(const char* operation, const Var& x, const Var& branch) {
  if (branch.shape() != x.shape())
    throw ShapeError(std::string(operation) + ": branch is " + to_string(branch.shape()) +
                     ", expected the shape of x " + to_string(x.shape()));
  require_same_dtype(operation, x.value(), branch.value());
}

// Of sum = x + branch.
void add_to_both(InputGradients& dx, Array dsum) {
  if (dx.needs(0)) dx.add(0, dsum);
  dx.add(1, std::move(dsum));
}

template <class F>
ResidualNorm record_both(OpName name, std::span<const Var* const> inputs, const Array& sum,
                         const Array& y, F backward) {
  const Array outputs[] = {sum, y};
  Var recorded[2];
  record_many(name, inputs, outputs, recorded, std::move(backward));
  return {std::move(recorded[0]), std::move(recorded[1])};
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

// The norm's dx and the gradient of the sum meet in one array, row by row.
ResidualNorm add_layer_norm(const Var& x, const Var& branch, const Var& gain, const Var& shift,
                            double eps) {
  require_width("add_layer_norm", x);
  require_branch("add_layer_norm", x, branch);
  require_parameter("add_layer_norm", "gain", gain, x);
  require_parameter("add_layer_norm", "shift", shift, x);
  const auto [sum, norm] =
      kernels::add_layer_norm(x.value(), branch.value(), gain.value(), shift.value(), eps);
  const Var* inputs[] = {&x, &branch, &gain, &shift};
  return record_both("add_layer_norm", inputs, sum, norm.y,
                     [sum = sum, gain = gain.value(), mean = norm.mean, rstd = norm.rstd](
                         std::span<const Array> dy, InputGradients& dx) {
                       if (dy[1].is_null()) {
                         dx.none(2);
                         dx.none(3);
                         return add_to_both(dx, dy[0]);
                       }
                       auto gradients = kernels::layer_norm_backward(
                           sum, gain, mean, rstd, dy[1], dx.needs(2) || dx.needs(3), dy[0]);
                       add_to_both(dx, std::move(gradients.dx));
                       if (dx.needs(2)) dx.add(2, std::move(gradients.dgain));
                       if (dx.needs(3)) dx.add(3, std::move(gradients.dshift));
                     });
}

ResidualNorm add_rms_norm(const Var& x, const Var& branch, const Var& gain, double eps) {
  require_width("add_rms_norm", x);
  require_branch("add_rms_norm", x, branch);
  require_parameter("add_rms_norm", "gain", gain, x);
  const auto [sum, norm] = kernels::add_rms_norm(x.value(), branch.value(), gain.value(), eps);
  const Var* inputs[] = {&x, &branch, &gain};
  return record_both("add_rms_norm", inputs, sum, norm.y,
                     [sum = sum, gain = gain.value(), rstd = norm.rstd](std::span<const Array> dy,
                                                                        InputGradients& dx) {
                       if (dy[1].is_null()) {
                         dx.none(2);
                         return add_to_both(dx, dy[0]);
                       }
                       auto gradients =
                           kernels::rms_norm_backward(sum, gain, rstd, dy[1], dx.needs(2), dy[0]);
                       add_to_both(dx, std::move(gradients.dx));
                       if (dx.needs(2)) dx.add(2, std::move(gradients.dgain));
                     });
}

}  // namespace attune
