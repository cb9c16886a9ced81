#pragma once

#include <cstdint>
#include <vector>

#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

// The simple gradient noise scale (McCandlish, Kaplan, Amodei et al. 2018, appendix A.1): the batch
// size, in examples, at which the noise of a gradient is as large as the gradient itself.
//   S = tr(covariance of one example's gradient),  G = the gradient over all examples,  B = S /
//   |G|^2
// from gradients of two batch sizes b < B, by estimators without bias:
//   |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)     S = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)
struct NoiseScale {
  double gradient_square = 0;  // |G|^2; may come out below 0 where noise hides it
  double noise = 0;            // S
  // Where |G|^2 is positive: S / |G|^2, else infinite. Means of several measurements must be taken
  // of S and of |G|^2 before they are divided.
  [[nodiscard]] double examples() const;
};
[[nodiscard]] NoiseScale noise_scale(double small_batch, double small_square, double large_batch,
                                     double large_square);

// Of a model on the training split: `parts` batches of `part` examples are the small ones, all of
// them together the large one. The loss of an example is its sum over scored tokens, divided by
// their mean number. Throws ConfigError for fewer than two parts or one example.
[[nodiscard]] NoiseScale measure_noise_scale(const Transformer& model, const BatchSource& batches,
                                             std::int64_t part, std::int64_t parts);

}  // namespace attune
