#pragma once

#include <span>
#include <vector>

#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

// How a layer with a mixture of attentions spreads tokens over its experts.
struct ExpertLoad {
  std::vector<double> shares;         // [experts] of all tokens
  std::vector<double> probabilities;  // [experts] the router's, mean over tokens
  // Standard deviation over mean of the shares: 0 where all have as many tokens, sqrt(experts - 1)
  // where one has all.
  [[nodiscard]] double variation() const;
};
// Layer by layer, over all tokens of the batches; empty for other kinds of attention.
[[nodiscard]] std::vector<ExpertLoad> expert_loads(const Transformer& model,
                                                   std::span<const Batch> batches);

}  // namespace attune
