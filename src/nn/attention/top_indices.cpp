#include "nn/attention/top_indices.h"

#include <algorithm>
#include <cmath>

namespace attune {

std::vector<std::int32_t> top_indices(const Array& scores, std::int64_t row, std::int64_t count,
                                      std::span<const std::uint8_t> keep) {
  std::vector<std::int32_t> order;
  const std::int64_t width = scores.shape().last();
  for (std::int64_t j = 0; j < width; ++j) {
    if (keep.empty() || keep[static_cast<std::size_t>(j)])
      order.push_back(static_cast<std::int32_t>(j));
  }
  const auto chosen = std::min<std::int64_t>(count, static_cast<std::int64_t>(order.size()));
  dispatch(scores.dtype(), [&]<class T>() {
    const T* score = scores.data<T>().data() + row * width;
    const auto before = [&](std::int32_t a, std::int32_t b) {
      const bool a_is_nan = std::isnan(score[a]), b_is_nan = std::isnan(score[b]);
      if (a_is_nan != b_is_nan) return a_is_nan;
      if (!a_is_nan && score[a] != score[b]) return score[a] > score[b];
      return a < b;
    };
    std::nth_element(order.begin(), order.begin() + chosen, order.end(), before);
  });
  order.resize(static_cast<std::size_t>(chosen));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace attune
