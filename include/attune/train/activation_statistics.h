#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attune/array/array.h"
#include "attune/nn/hooks.h"

namespace attune {

// How large activations are at places of a forward pass, over all tokens of a batch. Sums are taken
// in double and added up shard by shard, in their order.
class ActivationStatistics final {
 public:
  struct Place {
    HookPoint point;
    int layer;
    double square_sum = 0;
    std::int64_t count = 0;       // elements
    std::vector<double> largest;  // ffn_hidden: of each unit, the largest magnitude of any token

    [[nodiscard]] double rms() const;  // root of the mean square; 0 without elements
    // Share of units that no token moved beyond this magnitude; nothing where units are not
    // watched.
    [[nodiscard]] std::optional<double> dead_share(double dead_up_to) const;
  };

  // Adds what one forward pass has at a place; x: [..., units].
  void add(HookPoint point, int layer, const Array& x);
  // Place by place.
  ActivationStatistics& operator+=(const ActivationStatistics& other);
  void clear() { places_.clear(); }

  // In the order of the forward pass.
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

 private:
  [[nodiscard]] Place& at(HookPoint point, int layer);

  std::vector<Place> places_;
};

}  // namespace attune
