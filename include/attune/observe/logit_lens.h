#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attune/model/transformer.h"

namespace attune {

// What a model would say if it ended at a layer: sums over scored tokens.
struct LensRow {
  int layer = 0;        // after this block; -1: before the first
  double loss_sum = 0;  // nats
  std::int64_t scored = 0;
  std::int64_t correct = 0;  // whose largest logit is the target

  [[nodiscard]] double loss_nats() const {
    return scored ? loss_sum / static_cast<double>(scored) : 0;
  }
  [[nodiscard]] double accuracy() const {
    return scored ? static_cast<double>(correct) / static_cast<double>(scored) : 0;
  }
};

// The logit lens (nostalgebraist 2020): the stream behind every block through the final norm and
// the head. The last row is the model itself. targets: [batch, time], kIgnore where nothing is
// asked. Throws ShapeError as Transformer::loss does.
[[nodiscard]] std::vector<LensRow> logit_lens(const Transformer& model, const TokenBatch& batch,
                                              std::span<const std::int32_t> targets);

}  // namespace attune
