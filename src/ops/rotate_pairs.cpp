#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/ops/attention.h"
#include "kernels/rotate_pairs.h"
#include "ops/check.h"

namespace attune {
namespace {

void check_rotation(const Array& x, std::int64_t heads, const Array& cosines, const Array& sines) {
  if (x.shape().rank() != 3 || heads < 1 || x.shape()[2] % heads != 0) {
    throw ShapeError(
        fmt::format("rotate_pairs: x {} does not split into {} heads, expected [batch, time, heads "
                    "* head_dim]",
                    to_string(x.shape()), heads));
  }
  const Shape& angles = cosines.shape();
  if (!(angles == sines.shape()) || angles.rank() != 3 ||
      (angles[0] != 1 && angles[0] != x.shape()[0]) || angles[1] != x.shape()[1] ||
      2 * angles[2] > x.shape()[2] / heads) {
    throw ShapeError(
        fmt::format("rotate_pairs: cosines {} and sines {} do not fit x {} of {} heads, expected "
                    "[1 or batch, time, at most head_dim / 2]",
                    to_string(angles), to_string(sines.shape()), to_string(x.shape()), heads));
  }
  require_same_dtype("rotate_pairs", x, cosines);
  require_same_dtype("rotate_pairs", x, sines);
}

}  // namespace

Var rotate_pairs(const Var& x, std::int64_t heads, const Array& cosines, const Array& sines,
                 bool interleaved) {
  check_rotation(x.value(), heads, cosines, sines);
  const auto pairing = interleaved ? kernels::Pairing::interleaved : kernels::Pairing::half_split;
  Array y = kernels::rotate_pairs(x.value(), heads, cosines, sines, pairing);
  return record("rotate_pairs", {x}, y,
                [heads, cosines, sines, pairing](const Array& dy, InputGradients& dx) {
                  dx.add(0, kernels::rotate_pairs_backward(dy, heads, cosines, sines, pairing));
                });
}

}  // namespace attune
