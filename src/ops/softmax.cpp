#include "attune/ops/softmax.h"

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "kernels/softmax.h"

namespace attune {
namespace {

void require_axis(const char* operation, const Var& x) {
  if (x.shape().rank() == 0)
    throw ShapeError(std::string(operation) + ": x [] is a scalar, it needs at least one axis");
}

void require_broadcast(const Shape& x, const Shape& keep) {
  bool fits = keep.rank() <= x.rank();
  for (int axis = 1; fits && axis <= keep.rank(); ++axis)
    fits = keep[-axis] == 1 || keep[-axis] == x[-axis];
  if (!fits)
    throw ShapeError("masked_softmax: keep " + to_string(keep) + " does not broadcast to x " +
                     to_string(x));
}

}  // namespace

Var softmax(const Var& x) {
  require_axis("softmax", x);
  Array y = kernels::softmax(x.value());
  return record("softmax", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::softmax_backward(y, dy));
  });
}

// A key that is not kept has y = 0, and softmax_backward gives it gradient 0.
Var masked_softmax(const Var& x, const Array& keep) {
  require_axis("masked_softmax", x);
  require_broadcast(x.shape(), keep.shape());
  Array y = kernels::masked_softmax(x.value(), keep.cast(x.dtype()));
  return record("masked_softmax", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::softmax_backward(y, dy));
  });
}

Var log_softmax(const Var& x) {
  require_axis("log_softmax", x);
  Array y = kernels::log_softmax(x.value());
  return record("log_softmax", {x}, y, [y](const Array& dy, InputGradients& dx) {
    dx.add(0, kernels::log_softmax_backward(y, dy));
  });
}

}  // namespace attune
