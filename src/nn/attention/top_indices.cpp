#include "nn/attention/top_indices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attune {
namespace {

template <class T>
struct Ranked {
  T rank;
  std::int32_t index;
};

// Of equals the first is better.
template <class T>
bool is_better(const Ranked<T>& a, const Ranked<T>& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.index < b.index);
}

}  // namespace

// A heap of the best so far, the worst of them in front: most of a long row is passed by with one
// comparison.
std::vector<std::int32_t> top_indices(const Array& scores, std::int64_t row, std::int64_t count,
                                      std::span<const std::uint8_t> keep) {
  std::vector<std::int32_t> chosen;
  const std::int64_t width = scores.shape().last();
  dispatch(scores.dtype(), [&]<class T>() {
    const T* score = scores.data<T>().data() + row * width;
    const auto room = static_cast<std::size_t>(std::min(count, width));
    std::vector<Ranked<T>> best;
    best.reserve(room);
    for (std::int64_t j = 0; j < width; ++j) {
      if (!keep.empty() && keep[static_cast<std::size_t>(j)] == 0) continue;
      const T rank = std::isnan(score[j]) ? std::numeric_limits<T>::infinity() : score[j];
      const bool is_full = best.size() == room;
      if (is_full && (room == 0 || !(rank > best.front().rank))) continue;
      if (is_full) {
        std::pop_heap(best.begin(), best.end(), is_better<T>);
        best.pop_back();
      }
      best.push_back({rank, static_cast<std::int32_t>(j)});
      std::push_heap(best.begin(), best.end(), is_better<T>);
    }
    for (const Ranked<T>& one : best) chosen.push_back(one.index);
  });
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace attune
