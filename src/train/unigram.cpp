#include "train/unigram.h"

#include <cmath>
#include <map>

namespace attune {

double unigram_entropy(const BatchSource& source, std::int64_t batches, std::int64_t batch_size) {
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < batches; ++i) {
    for (const std::int32_t target : source.evaluation(Split::train, i, batch_size).targets) {
      if (target == kIgnore) continue;
      ++counts[target];
      ++all;
    }
  }
  double entropy = 0;
  for (const auto& [target, count] : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(all);
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace attune
