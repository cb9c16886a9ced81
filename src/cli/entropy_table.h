#pragma once

#include <string>

#include "attune/core/attention_statistics.h"

namespace attune::cli {

// One row a layer, one column a head: normalised entropy, 0 where all weight is on one key, 1 where
// it is spread evenly.
[[nodiscard]] std::string entropy_table(const AttentionStatistics& statistics);

}  // namespace attune::cli
