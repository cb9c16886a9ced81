#pragma once

#include <cstdint>
#include <vector>

#include "attune/model/transformer.h"

namespace attune {

// How much of the last token's output an earlier token decides, before training:
//   |dy_T / dx_t| / |dy_T / dx_T|,   Frobenius norms
// for each t, of what the model reads (its embeddings) and what its head reads, and of a plain
// recurrent network and an LSTM of one layer and the same width that read the same embeddings.
// Attention reaches any distance in one step; a recurrent state passes one product a token, so its
// gradient shrinks (or grows) exponentially (Bengio, Simard & Frasconi 1994).
struct GradientReach {
  std::vector<double> attention;  // by distance T - t, from 0
  std::vector<double> rnn;
  std::vector<double> lstm;
};
// The Jacobians are seen through one random direction of y_T for each example: the mean over
// examples of |u^T dy_T/dx_t|^2, u normal, is the square of their norm.
[[nodiscard]] GradientReach gradient_reach(const Transformer& model, const TokenBatch& batch,
                                           std::uint64_t seed);

}  // namespace attune
