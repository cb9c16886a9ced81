#pragma once

#include "attune/array/array.h"

// Over the last axis, width n >= 1. gain and shift are [n]; a null gain is 1, a null shift 0. The
// statistics that the backward functions need come back beside y, one a row.
namespace attune::kernels {

struct LayerNorm {
  Array y;
  Array mean;  // [rows]
  Array rstd;  // [rows], 1 / sqrt(var + eps)
};
// y = (x - mean) rstd gain + shift, var = sum (x - mean)^2 / n
[[nodiscard]] LayerNorm layer_norm(const Array& x, const Array& gain, const Array& shift,
                                   double eps);
// The same of sum = x + branch, of one shape: a row is normalised while the cache still holds it.
struct AddLayerNorm {
  Array sum;
  LayerNorm norm;
};
[[nodiscard]] AddLayerNorm add_layer_norm(const Array& x, const Array& branch, const Array& gain,
                                          const Array& shift, double eps);
struct LayerNormGradients {
  Array dx;
  Array dgain;  // null unless asked for
  Array dshift;
};
// With h = (x - mean) rstd and g = dy gain:
//   dx = rstd (g - sum g / n - h sum(g h) / n) + beside,
//   dgain = sum over rows of dy h,   dshift = sum over rows of dy
// `beside` is what reaches x on other ways, or null.
[[nodiscard]] LayerNormGradients layer_norm_backward(const Array& x, const Array& gain,
                                                     const Array& mean, const Array& rstd,
                                                     const Array& dy, bool with_parameters,
                                                     const Array& beside = {});

struct RmsNorm {
  Array y;
  Array rstd;  // [rows], 1 / sqrt(mean(x^2) + eps)
};
// y = x rstd gain
[[nodiscard]] RmsNorm rms_norm(const Array& x, const Array& gain, double eps);
struct AddRmsNorm {
  Array sum;
  RmsNorm norm;
};
[[nodiscard]] AddRmsNorm add_rms_norm(const Array& x, const Array& branch, const Array& gain,
                                      double eps);
struct RmsNormGradients {
  Array dx;
  Array dgain;  // null unless asked for
};
// With h = x rstd and g = dy gain:
//   dx = rstd (g - h sum(g h) / n) + beside,   dgain = sum over rows of dy h
[[nodiscard]] RmsNormGradients rms_norm_backward(const Array& x, const Array& gain,
                                                 const Array& rstd, const Array& dy,
                                                 bool with_parameters, const Array& beside = {});

}  // namespace attune::kernels
