#include "observe/report/by_layer.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <functional>
#include <optional>

#include "attune/core/text.h"

namespace attune {
namespace {

// Where a parameter belongs, in the order of a forward pass.
struct LayerPart {
  int place = 0;  // 0 embeddings, 1 blocks, 2 what comes after
  std::int64_t layer = 0;
  std::string name;
  auto operator<=>(const LayerPart&) const = default;
};

LayerPart part_of(const std::string& parameter) {
  const std::string first = parameter.substr(0, parameter.find('.'));
  if (first == "block") {
    const std::string rest = parameter.substr(std::min(parameter.size(), first.size() + 1));
    const std::optional<std::int64_t> layer = parse_integer(rest.substr(0, rest.find('.')));
    if (layer) return {1, *layer, "layer " + std::to_string(*layer)};
  }
  const bool is_embedding = first.ends_with("embedding") || first == "position";
  return {is_embedding ? 0 : 2, 0, first};
}

struct Value {
  const std::string* parameter;
  double value;
};

NamedSeries combined(const std::map<std::string, StepSeries>& by_parameter,
                     const std::function<double(std::vector<Value>&)>& combine) {
  std::map<LayerPart, std::map<double, std::vector<Value>>> parts;
  for (const auto& [parameter, series] : by_parameter) {
    auto& steps = parts[part_of(parameter)];
    for (std::size_t i = 0; i < series.steps.size(); ++i) {
      steps[series.steps[i]].push_back({&parameter, series.values[i]});
    }
  }
  NamedSeries layers;
  for (auto& [part, steps] : parts) {
    StepSeries& series = layers.emplace_back(part.name, StepSeries()).second;
    for (auto& [step, values] : steps) series.add(step, combine(values));
  }
  return layers;
}

}  // namespace

NamedSeries gradients_by_layer(const ReportRun& run) {
  const bool known = !run.elements.empty();
  return combined(run.gradient_rms, [&](std::vector<Value>& values) {
    double sum = 0;
    for (const Value& one : values) {
      const auto found = run.elements.find(*one.parameter);
      const double elements =
          known ? (found == run.elements.end() ? 0.0 : static_cast<double>(found->second)) : 1.0;
      sum += elements * one.value * one.value;
    }
    return std::sqrt(known ? sum : sum / static_cast<double>(values.size()));
  });
}

NamedSeries medians_by_layer(const std::map<std::string, StepSeries>& by_parameter) {
  return combined(by_parameter, [](std::vector<Value>& values) {
    std::erase_if(values, [](const Value& one) { return std::isnan(one.value); });
    if (values.empty()) return std::nan("");
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle, {}, &Value::value);
    return middle->value;
  });
}

}  // namespace attune
