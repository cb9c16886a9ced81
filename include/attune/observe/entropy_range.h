#pragma once

#include <optional>

#include "attune/core/attention_statistics.h"
#include "attune/train/observer.h"

namespace attune {

// Normalised entropies (0 one key, 1 uniform) over all layers and heads that had a valid row.
struct EntropyRange {
  double mean = 0;
  double min = 0;
  double max = 0;
  bool shares = false;  // of weights that are no distribution, see HeadStatistics
};
// Nothing where no head had a valid row.
[[nodiscard]] std::optional<EntropyRange> entropy_range(const AttentionStatistics& statistics);
// Of the update's batch where it was measured, else of the validation batches.
[[nodiscard]] std::optional<EntropyRange> entropy_range(const StepRecord& record);

}  // namespace attune
