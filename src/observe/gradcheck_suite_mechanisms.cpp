#include "attune/nn/attention/additive.h"
#include "attune/nn/attention/location_sensitive.h"
#include "attune/ops/shaping.h"
#include "observe/gradcheck_suite_layer_case.h"

// The kinds of attention of nn/attention, by their inputs and all their parameters.
namespace attune::gradcheck_suite {
namespace {

// What a layer mixed and its weights, as one output.
Var both(const Attended& attended) { return concat({attended.mixed, attended.weights}, 2); }

void add_recurrent_attention(Cases& cases) {
  const AdditiveAttentionConfig content{.decoder = 3, .encoder = 4, .hidden = 5, .bias = true};
  const std::vector<Shape> shapes = {{2, 3, 3}, {2, 5, 4}};
  const auto call = [](const auto& layer, Values x, const Pass& pass) {
    return both(layer(x[0], x[1], pass));
  };
  add_layer(
      cases, "additive_attention", shapes,
      [=](const Scope& root) { return AdditiveAttention(root, content, init(), 0); }, call);
  for (const bool cumulative : {false, true}) {
    const LocationSensitiveConfig config{content, 2, 3, cumulative};
    add_layer(
        cases, std::string("location_sensitive_attention") + (cumulative ? " cumulative" : ""),
        shapes,
        [=](const Scope& root) { return LocationSensitiveAttention(root, config, init(), 0); },
        call);
  }
}

}  // namespace

void add_mechanisms(Cases& cases) { add_recurrent_attention(cases); }

}  // namespace attune::gradcheck_suite
