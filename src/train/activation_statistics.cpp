#include "attune/train/activation_statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"

namespace attune {
namespace {

// x: [..., units] -> the largest magnitude of each unit.
std::vector<double> largest_of_units(const Array& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const std::int64_t units = x.shape().last();
    std::vector<T> largest(static_cast<std::size_t>(units));
    for (std::int64_t begin = 0; begin < x.size(); begin += units)
      kernels::largest_magnitude_run(x.data<T>().data() + begin, largest.data(), units);
    return std::vector<double>(largest.begin(), largest.end());
  });
}

void take_larger(std::vector<double>& largest, const std::vector<double>& other) {
  if (largest.empty()) largest = other;
  for (std::size_t i = 0; i < other.size(); ++i) largest[i] = std::max(largest[i], other[i]);
}

}  // namespace

double ActivationStatistics::Place::rms() const {
  return count > 0 ? std::sqrt(square_sum / static_cast<double>(count)) : 0;
}

std::optional<double> ActivationStatistics::Place::dead_share(double dead_up_to) const {
  if (largest.empty()) return std::nullopt;
  const auto dead =
      std::ranges::count_if(largest, [&](double value) { return value <= dead_up_to; });
  return static_cast<double>(dead) / static_cast<double>(largest.size());
}

void ActivationStatistics::add(HookPoint point, int layer, const Array& x) {
  Place& place = at(point, layer);
  place.square_sum += kernels::sum_of_squares(x);
  place.count += x.size();
  if (point == HookPoint::ffn_hidden) take_larger(place.largest, largest_of_units(x));
}

ActivationStatistics& ActivationStatistics::operator+=(const ActivationStatistics& other) {
  for (const Place& theirs : other.places_) {
    Place& place = at(theirs.point, theirs.layer);
    place.square_sum += theirs.square_sum;
    place.count += theirs.count;
    take_larger(place.largest, theirs.largest);
  }
  return *this;
}

ActivationStatistics::Place& ActivationStatistics::at(HookPoint point, int layer) {
  const auto found = std::ranges::find_if(
      places_, [&](const Place& place) { return place.point == point && place.layer == layer; });
  if (found != places_.end()) return *found;
  return places_.emplace_back(Place{point, layer, 0, 0, {}});
}

}  // namespace attune
