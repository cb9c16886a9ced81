#include "attune/observe/entropy_range.h"

#include <algorithm>

namespace attune {

std::optional<EntropyRange> entropy_range(const AttentionStatistics& statistics) {
  EntropyRange range{.min = 1};
  int heads = 0;
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      if (one.rows_valid == 0) continue;
      const double entropy = one.entropy_norm();
      range.mean += entropy;
      range.min = std::min(range.min, entropy);
      range.max = std::max(range.max, entropy);
      range.shares = range.shares || one.shares;
      ++heads;
    }
  }
  if (heads == 0) return std::nullopt;
  range.mean /= heads;
  return range;
}

std::optional<EntropyRange> entropy_range(const StepRecord& record) {
  if (record.attention) return entropy_range(*record.attention);
  return record.validation ? entropy_range(record.validation->attention) : std::nullopt;
}

}  // namespace attune
