#include "nn/attention/top_indices.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace attune {

// The count-th largest is found among copies of the values; what is above it is taken, and of its
// equals as many as there is room for.
std::vector<std::int32_t> top_indices(const Array& scores, std::int64_t row, std::int64_t count,
                                      std::span<const std::uint8_t> keep) {
  std::vector<std::int32_t> chosen;
  const std::int64_t width = scores.shape().last();
  dispatch(scores.dtype(), [&]<class T>() {
    const T* score = scores.data<T>().data() + row * width;
    const auto is_kept = [&](std::int64_t j) {
      return keep.empty() || keep[static_cast<std::size_t>(j)] != 0;
    };
    const auto rank = [&](std::int64_t j) {
      return std::isnan(score[j]) ? std::numeric_limits<T>::infinity() : score[j];
    };
    std::vector<T> ranks;
    ranks.reserve(static_cast<std::size_t>(width));
    for (std::int64_t j = 0; j < width; ++j)
      if (is_kept(j)) ranks.push_back(rank(j));
    T least = -std::numeric_limits<T>::infinity();
    auto room = std::min<std::int64_t>(count, static_cast<std::int64_t>(ranks.size()));
    if (room == 0) return;
    if (room < static_cast<std::int64_t>(ranks.size())) {
      std::nth_element(ranks.begin(), ranks.begin() + (room - 1), ranks.end(), std::greater<T>());
      least = ranks[static_cast<std::size_t>(room - 1)];
    }
    room -= std::count_if(ranks.begin(), ranks.begin() + room, [&](T x) { return x > least; });
    for (std::int64_t j = 0; j < width; ++j) {
      if (!is_kept(j) || rank(j) < least || (rank(j) == least && room-- <= 0)) continue;
      chosen.push_back(static_cast<std::int32_t>(j));
    }
  });
  return chosen;
}

}  // namespace attune
