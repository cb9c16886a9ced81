#pragma once

#include <cstdint>
#include <vector>

#include "attune/core/mask.h"
#include "attune/nn/hooks.h"
#include "attune/nn/positions.h"

namespace attune {

// Measures how much attention each token receives in one layer: given to a Pass as its hooks, it
// sums the weights [batch, heads, query, key] over queries and means them over heads. One forward
// pass, one measurement; of several the last counts.
class ReceivedAttention final : public Hooks {
 public:
  explicit ReceivedAttention(int layer) : layer_(layer) {}

  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override;
  [[nodiscard]] bool wants_inside_of_attention(int layer) const override { return layer == layer_; }

  // [batch, key]; null before the layer ran.
  [[nodiscard]] const Array& received() const { return received_; }

 private:
  int layer_;
  Array received_;
};

struct PrunedTokens {
  Var x;                            // [batch, kept, model]
  Positions positions;              // of the tokens that stayed: [batch, kept]
  Mask mask;                        // the pass's mask between them
  std::vector<std::int32_t> index;  // [batch, kept]: where each stood in x, ascending
};

// Goes on with the tokens that receive most attention, ceil(keep_ratio * time) of each example, in
// their order; of equals the first. The dropping half of DynamicViT (Rao et al. 2021), with
// received attention as the score in place of a trained predictor: nothing is learned, and it
// serves at evaluation. Layers after it see shorter sequences: pass them the positions and the
// mask.
//   x: [batch, time, model], received: [batch, time], positions: of the tokens of x;
//   mask: of a pass over x, or null: a token that it drops for every query goes first
// A causal mask of the layers stays right, a window counts the tokens that are left. Throws
// ValueError for a ratio outside (0, 1], ShapeError where extents differ.
[[nodiscard]] PrunedTokens prune_tokens(const Var& x, const Array& received, double keep_ratio,
                                        const Positions& positions, const Mask* mask = nullptr);

}  // namespace attune
