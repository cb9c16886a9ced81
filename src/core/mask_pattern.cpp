#include "attune/core/mask_pattern.h"

#include <algorithm>

#include "attune/core/random.h"

namespace attune {

std::int64_t MaskPattern::drawn(std::int64_t a, std::int64_t which) const {
  const RandomStream stream = Randomness{.seed = seed}.stream("mask.random_blocks");
  const double u = stream.uniform(static_cast<std::uint64_t>(a * random + which));
  return static_cast<std::int64_t>(u * static_cast<double>(a + 1));
}

void MaskPattern::fill(std::int64_t p, std::int64_t first, std::span<std::uint8_t> keep) const {
  const std::int64_t end = first + static_cast<std::int64_t>(keep.size());
  const auto mark = [&](std::int64_t from, std::int64_t to) {
    from = std::clamp(from, first, end);
    to = std::clamp(to, from, end);
    std::fill(keep.begin() + (from - first), keep.begin() + (to - first), std::uint8_t{1});
  };
  std::fill(keep.begin(), keep.end(), std::uint8_t{0});
  if (p < globals) return mark(first, end);
  mark(0, globals);
  if (window > 0) {
    const std::int64_t lowest = p - (window - 1) * dilation;
    const std::int64_t skipped = std::max<std::int64_t>(0, first - lowest + dilation - 1);
    const std::int64_t last = std::min(p + (window - 1) * dilation, end - 1);
    for (std::int64_t j = lowest + skipped / dilation * dilation; j <= last; j += dilation)
      keep[static_cast<std::size_t>(j - first)] = 1;
  }
  if (random == 0) return;
  const std::int64_t own = p / block;
  for (std::int64_t r = 0; r < random; ++r) {
    const std::int64_t other = drawn(own, r);
    mark(other * block, (other + 1) * block);
  }
  for (std::int64_t later = std::max(own + 1, first / block); later * block < end; ++later)
    for (std::int64_t r = 0; r < random; ++r)
      if (drawn(later, r) == own) mark(later * block, (later + 1) * block);
}

}  // namespace attune
