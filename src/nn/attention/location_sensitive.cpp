#include "attune/nn/attention/location_sensitive.h"

#include <vector>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/shaping.h"
#include "nn/attention/parts.h"

namespace attune {
namespace {

LocationSensitiveConfig valid(const LocationSensitiveConfig& config) {
  if (config.width < 1 || config.width % 2 == 0) {
    throw ConfigError("location-sensitive attention: filters of width " +
                      std::to_string(config.width) + ", expected an odd number");
  }
  return config;
}

// What each place's filters see: x [batch, time] -> [batch, time, width], 0 beyond the ends.
Var windows(const Var& x, std::int64_t width) {
  const std::int64_t time = x.shape()[1];
  const Var beyond(Array::zeros({x.shape()[0], width / 2}, x.dtype()));
  const Var padded = reshape(concat({beyond, x, beyond}, 1), {x.shape()[0], time + width - 1, 1});
  std::vector<Var> shifted;
  for (std::int64_t d = 0; d < width; ++d) shifted.push_back(slice(padded, 1, d, d + time));
  return concat(shifted, 2);
}

}  // namespace

LocationSensitiveAttention::LocationSensitiveAttention(const Scope& scope,
                                                       const LocationSensitiveConfig& config,
                                                       const InitScheme& init, int layer)
    : config_(valid(config)),
      path_(scope.path()),
      content_(scope, config.content, init, layer),
      filter_(scope / "filter", config.width, config.filters, false, init),
      location_(scope / "location", config.filters, config.content.hidden, false, init) {}

Var LocationSensitiveAttention::start(const Var& memory) const {
  return Array::zeros({memory.shape()[0], memory.shape()[1]}, memory.dtype());
}

// What a place is worth for its location is added to its key, U f + V h: the rest is additive
// attention.
AlignmentStep LocationSensitiveAttention::step(const Var& query, const Var& keys, const Var& memory,
                                               const Var& history, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  const std::int64_t batch = memory.shape()[0], entries = memory.shape()[1];
  if (query.shape().rank() != 3 || query.shape()[1] != 1 ||
      history.shape() != Shape{batch, entries}) {
    throw ShapeError("location-sensitive attention: query " + to_string(query.shape()) +
                     " and history " + to_string(history.shape()) +
                     ", expected [batch, 1, decoder] and " + to_string(Shape{batch, entries}));
  }
  const Var location = location_(filter_(windows(history, config_.width), pass), pass);
  const Attended attended = content_.attend(query, keys + location, memory, pass);
  const Var weights = reshape(attended.weights, {batch, entries});
  return {attended, config_.cumulative ? history + weights : weights};
}

Attended LocationSensitiveAttention::operator()(const Var& query, const Var& memory,
                                                const Pass& pass) const {
  const Var found = keys(memory, pass);
  Var history = start(memory);
  std::vector<Var> mixed, weights;
  for (std::int64_t i = 0; i < query.shape()[1]; ++i) {
    const AlignmentStep one = step(slice(query, 1, i, i + 1), found, memory, history, pass);
    mixed.push_back(one.attended.mixed);
    weights.push_back(one.attended.weights);
    history = one.history;
  }
  return {concat(mixed, 1), concat(weights, 1)};
}

}  // namespace attune
