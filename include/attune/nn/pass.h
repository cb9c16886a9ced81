#pragma once

#include <cstdint>

#include "attune/autodiff/parameter.h"
#include "attune/autodiff/tape.h"
#include "attune/core/attention_statistics.h"
#include "attune/core/mask.h"
#include "attune/core/random.h"
#include "attune/nn/hooks.h"
#include "attune/nn/positions.h"

namespace attune {

class KvCache;

// Everything a forward pass needs to know beside its input; the second argument of every layer. The
// default is inference: no tape, no dropout, positions 0, 1, ...
struct Pass {
  Tape* tape = nullptr;            // null: nothing is recorded and memory is freed as the pass goes
  bool training = false;           // dropout is on
  Randomness random{};             // seed of the run and step
  std::int64_t first_example = 0;  // of this shard in the whole batch: where its randomness is
  const Positions* positions = nullptr;  // null: 0, 1, ..., or on from where the cache ends
  const Mask* mask = nullptr;            // AND-ed with the model's own: key padding, documents
  KvCache* cache = nullptr;  // of earlier tokens; the pass appends its own; without a tape only
  AttentionStatistics* statistics = nullptr;  // added to; null: not wanted
  Hooks* hooks = nullptr;                     // null: none
  // Of the losses that layers have beside the model's (attach_loss), in units of its gradient; 0:
  // they are left out. Today that of a mixture of attentions.
  double layer_loss_weight = 0;
  // Keep the input of each block alone and compute the block again for the backward pass: less
  // memory, a third more work, the same bits. Without effect where there are hooks.
  bool checkpoint_activations = false;

  // The parameter as this pass sees it: on its tape, or a constant.
  [[nodiscard]] Var operator()(const Parameter& parameter) const {
    return tape ? tape->parameter(parameter) : Var(parameter.value());
  }
  // Throws ShapeError where a hook returns another shape or dtype.
  [[nodiscard]] Var hook(HookPoint point, int layer, const Var& x) const {
    return hooks ? call_hook(*hooks, point, layer, x) : x;
  }
};

}  // namespace attune
