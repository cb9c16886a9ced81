#include "attune/observe/taps.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune {

Taps::Taps(std::vector<HookPoint> points, std::vector<int> layers)
    : points_(std::move(points)), layers_(std::move(layers)) {}

bool Taps::is_wanted(HookPoint point, int layer) const {
  return std::ranges::find(points_, point) != points_.end() &&
         (layers_.empty() || std::ranges::find(layers_, layer) != layers_.end());
}

Var Taps::at(HookPoint point, int layer, const Var& x) {
  if (!is_wanted(point, layer)) return x;
  const auto same = [&](const Value& value) {
    return value.point == point && value.layer == layer;
  };
  const auto found = std::ranges::find_if(values_, same);
  if (found == values_.end()) {
    values_.push_back({point, layer, x.value()});
  } else {
    found->value = x.value();
  }
  return x;
}

bool Taps::wants_inside_of_attention(int layer) const {
  return is_wanted(HookPoint::scores, layer) || is_wanted(HookPoint::pattern, layer);
}

Array Taps::find(HookPoint point, int layer) const {
  for (const Value& value : values_)
    if (value.point == point && value.layer == layer) return value.value;
  return {};
}

const Array& Taps::at(HookPoint point, int layer) const {
  for (const Value& value : values_)
    if (value.point == point && value.layer == layer) return value.value;
  throw UsageError(fmt::format("taps: nothing came by at {} of layer {}", to_string(point), layer));
}

Var HookChain::at(HookPoint point, int layer, const Var& x) {
  Var y = x;
  for (Hooks* hooks : hooks_) y = call_hook(*hooks, point, layer, y);
  return y;
}

bool HookChain::replaces() const {
  return std::ranges::any_of(hooks_, [](const Hooks* hooks) { return hooks->replaces(); });
}

bool HookChain::wants_inside_of_attention(int layer) const {
  return std::ranges::any_of(
      hooks_, [&](const Hooks* hooks) { return hooks->wants_inside_of_attention(layer); });
}

}  // namespace attune
