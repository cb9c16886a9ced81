#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

constexpr std::int64_t kBuckets = 32;
constexpr std::int64_t kMaxDistance = 128;

// First distance of every bucket of one direction: one bucket a distance up to half of them, then
// logarithmically wider up to kMaxDistance. A table of whole numbers: at exact powers a computed
// logarithm could fall on either side.
std::vector<std::int64_t> bucket_starts(std::int64_t buckets) {
  const std::int64_t exact = buckets / 2;
  std::vector<std::int64_t> starts;
  for (std::int64_t b = 0; b <= exact; ++b) starts.push_back(b);
  const double ratio = static_cast<double>(kMaxDistance) / static_cast<double>(exact);
  for (std::int64_t b = exact + 1; b < buckets; ++b) {
    const double share = static_cast<double>(b - exact) / static_cast<double>(buckets - exact);
    const double start = static_cast<double>(exact) * std::pow(ratio, share);
    starts.push_back(static_cast<std::int64_t>(std::ceil(start - 1e-9)));
  }
  return starts;
}

// Relative position biases (Raffel et al. 2020, section 2.1): score_ij + table[bucket(j -
// i)][head], one table for all layers, after the scale 1/sqrt(head_dim), which T5 itself leaves
// out. Parameter: weight [32, heads], starts at 0. Causal: 32 buckets of distances back; otherwise
// 16 a direction, the second half for keys ahead.
class T5 final : public PositionalEncoding {
 public:
  T5(const Scope& scope, const PositionalConfig& config)
      : causal_(config.causal),
        starts_(bucket_starts(causal_ ? kBuckets : kBuckets / 2)),
        table_(scope.parameter("weight", {kBuckets, config.heads}, Initializer::constant(0),
                               {.decays = false})) {}

  [[nodiscard]] std::string_view name() const override { return "t5"; }
  [[nodiscard]] bool acts_on_scores() const override { return true; }

  void prepare(PositionContext& context, const Pass& pass) const override {
    auto [keys, first, count] = context.distances();
    std::vector<std::int32_t> buckets;
    for (std::int64_t d = first; d < first + count; ++d) buckets.push_back(bucket(d));
    context.distance_table = transpose(gather_rows(pass(table_), buckets, {count}), {1, 0});
    context.first_distance = first;
    context.distance_keys = std::move(keys);
  }

 private:
  // offset = key position - query position
  [[nodiscard]] std::int32_t bucket(std::int64_t offset) const {
    const std::int64_t distance = causal_ ? std::max<std::int64_t>(-offset, 0) : std::abs(offset);
    const auto above = std::upper_bound(starts_.begin(), starts_.end(), distance);
    const auto place = static_cast<std::int32_t>(above - starts_.begin() - 1);
    return place + (!causal_ && offset > 0 ? static_cast<std::int32_t>(kBuckets / 2) : 0);
  }

  bool causal_;
  std::vector<std::int64_t> starts_;
  const Parameter& table_;
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_t5(const Scope& scope, const PositionalConfig& config,
                                            const InitScheme&) {
  return std::make_unique<T5>(scope, config);
}

}  // namespace attune::positional
