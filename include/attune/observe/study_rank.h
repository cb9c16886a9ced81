#pragma once

#include <vector>

#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

// How far tokens differ from each other in a layer of a model (Dong, Cordonnier & Loukas 2021):
//   residual = |X - 1 m^T| / |X|      X: [time, model] of one example, m the mean token, Frobenius
//   cosine   = mean over pairs of different tokens of their cosine (Noci et al. 2022)
// averaged over examples. Rank one: residual 0 and cosine 1. Attention alone takes X there at a
// doubly exponential rate.
struct LayerRank {
  double residual = 0;
  double cosine = 0;
};
// Entry 0 is the embedding, entry l the stream behind block l.
[[nodiscard]] std::vector<LayerRank> study_rank(const Transformer& model, const Batch& batch);

}  // namespace attune
