#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attune/nn/scope.h"
#include "observe/gradcheck_suite_cases.h"

// A layer as a case of the suite: by its inputs and all its parameters.
namespace attune::gradcheck_suite {

inline constexpr DType kDouble = DType::float64;

inline const auto kCall = [](const auto& layer, Values inputs, const Pass& pass) {
  return layer(inputs[0], pass);
};

inline InitScheme init() { return {"normal", 0.5, 1}; }

// Dropout is on; rates of 0 leave it out.
inline Pass training_pass() {
  Pass pass;
  pass.training = true;
  pass.random = {.seed = 17, .step = 2};
  return pass;
}

template <class Layer>
struct Subject final : GradcheckSubject {
  ParameterStore store;
  std::optional<Layer> layer;
};

// make(root) -> layer; forward(layer, inputs, pass) -> output.
template <class Make, class Forward>
void add_layer(Cases& cases, const std::string& name, const std::vector<Shape>& shapes, Make make,
               Forward forward) {
  using Layer = decltype(make(std::declval<const Scope&>()));
  auto subject = std::make_unique<Subject<Layer>>();
  subject->layer.emplace(make(Scope(subject->store, 3, kDouble)));
  spread_parameters(subject->store, 5);
  GradcheckCase one = uniform_case("layer " + name, shapes, {});
  for (const Parameter& parameter : subject->store) one.inputs.push_back(parameter.value());
  one.function = with_parameters(
      subject->store, shapes.size(),
      [&layer = *subject->layer, forward](Values x, const Pass& pass) {
        return forward(layer, x, pass);
      },
      training_pass());
  one.subject = std::move(subject);
  cases.push_back(std::move(one));
}

}  // namespace attune::gradcheck_suite
