#include "attune/nn/recurrent.h"

#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/matmul.h"
#include "attune/ops/shaping.h"
#include "attune/ops/unary.h"
#include "nn/attention/parts.h"

namespace attune {
namespace {

// `gates` maps [out, in] in one matrix.
const Parameter& stacked(const Scope& scope, std::int64_t gates, std::int64_t in, std::int64_t out,
                         const InitScheme& init) {
  return scope.parameter("weight", {gates * out, in}, init(Role::weight, {out, in}));
}

void expect_shape(const char* what, const Var& x, const Shape& shape) {
  if (x.is_null() || x.shape() != shape) {
    throw ShapeError(fmt::format("recurrent cell: {} {}, expected {}", what,
                                 x.is_null() ? "null" : to_string(x.shape()), to_string(shape)));
  }
}

// projected: what `gates` gates take from a token; before: the state that they read.
void check_step(const Var& projected, std::int64_t gates, const Var& before, std::int64_t hidden) {
  const std::int64_t batch = projected.shape().rank() == 2 ? projected.shape()[0] : 0;
  expect_shape("projected token", projected, {batch, gates * hidden});
  expect_shape("state", before, {batch, hidden});
}

// Gate number `gate` of x [batch, gates * hidden].
Var gate_of(const Var& x, std::int64_t gate, std::int64_t hidden) {
  return slice(x, 1, gate * hidden, (gate + 1) * hidden);
}

}  // namespace

RecurrentState RecurrentCell::step(const Var& x, const RecurrentState& before,
                                   const Pass& pass) const {
  return advance(project(x, pass), before, pass);
}

Var RecurrentCell::operator()(const Var& x, RecurrentState& state, const Pass& pass) const {
  attention_parts::expect_rank("recurrent cell", "x", x, 3);
  const std::int64_t batch = x.shape()[0], time = x.shape()[1];
  const Var projected = project(x, pass);
  const std::int64_t width = projected.shape()[2];
  std::vector<Var> shown;
  for (std::int64_t t = 0; t < time; ++t) {
    state = advance(reshape(slice(projected, 1, t, t + 1), {batch, width}), state, pass);
    shown.push_back(reshape(state.hidden, {batch, 1, state.hidden.shape()[1]}));
  }
  if (time == 0) return Array::zeros({batch, 0, state.hidden.shape()[1]}, x.dtype());
  return concat(shown, 1);
}

Var RecurrentCell::operator()(const Var& x, const Pass& pass) const {
  attention_parts::expect_rank("recurrent cell", "x", x, 3);
  RecurrentState state = start(x.shape()[0]);
  return (*this)(x, state, pass);
}

RecurrentMaps::RecurrentMaps(const Scope& scope, const RecurrentConfig& config, std::int64_t gates,
                             std::int64_t state_gates, const InitScheme& init)
    : path_(scope.path()),
      input_(stacked(scope / "input", gates, config.in, config.hidden, init)),
      bias_((scope / "input")
                .parameter("bias", {gates * config.hidden}, Initializer::constant(0),
                           {.decays = false})),
      hidden_(stacked(scope / "hidden", state_gates, config.hidden, config.hidden, init)) {}

std::int64_t RecurrentMaps::width() const { return hidden_.shape()[1]; }

Var RecurrentMaps::zeros(std::int64_t batch) const {
  return Array::zeros({batch, width()}, hidden_.dtype());
}

Var RecurrentMaps::project(const Var& x, const Pass& pass) const {
  const PathGuard guard(pass.tape, path_);
  return linear(x, pass(input_), pass(bias_));
}

Var RecurrentMaps::of_state(const Var& hidden, const Pass& pass) const {
  return linear(hidden, pass(hidden_));
}

void RecurrentMaps::set_bias(const Array& value) { bias_.set_value(value); }

Rnn::Rnn(const Scope& scope, const RecurrentConfig& config, const InitScheme& init)
    : maps_(scope, config, 1, 1, init) {}

RecurrentState Rnn::advance(const Var& projected, const RecurrentState& before,
                            const Pass& pass) const {
  const PathGuard guard(pass.tape, maps_.path());
  check_step(projected, 1, before.hidden, maps_.width());
  return {tanh(projected + maps_.of_state(before.hidden, pass)), {}};
}

Lstm::Lstm(const Scope& scope, const RecurrentConfig& config, const InitScheme& init)
    : maps_(scope, config, 4, 4, init) {
  const Var zeros = Array::zeros({config.hidden}, scope.dtype());
  const Var ones = Array::full({config.hidden}, 1, scope.dtype());
  maps_.set_bias(concat({zeros, ones, zeros, zeros}, 0).value());
}

RecurrentState Lstm::advance(const Var& projected, const RecurrentState& before,
                             const Pass& pass) const {
  const PathGuard guard(pass.tape, maps_.path());
  const std::int64_t hidden = maps_.width();
  check_step(projected, 4, before.hidden, hidden);
  expect_shape("cell", before.cell, before.hidden.shape());
  const Var a = projected + maps_.of_state(before.hidden, pass);
  const Var in = sigmoid(gate_of(a, 0, hidden));
  const Var forget = sigmoid(gate_of(a, 1, hidden));
  const Var candidate = tanh(gate_of(a, 2, hidden));
  const Var out = sigmoid(gate_of(a, 3, hidden));
  const Var cell = forget * before.cell + in * candidate;
  return {out * tanh(cell), cell};
}

Gru::Gru(const Scope& scope, const RecurrentConfig& config, const InitScheme& init)
    : maps_(scope, config, 3, 2, init),
      candidate_(stacked(scope / "candidate", 1, config.hidden, config.hidden, init)) {}

RecurrentState Gru::advance(const Var& projected, const RecurrentState& before,
                            const Pass& pass) const {
  const PathGuard guard(pass.tape, maps_.path());
  const std::int64_t hidden = maps_.width();
  check_step(projected, 3, before.hidden, hidden);
  const Var gates =
      sigmoid(slice(projected, 1, 0, 2 * hidden) + maps_.of_state(before.hidden, pass));
  const Var reset = gate_of(gates, 0, hidden), update = gate_of(gates, 1, hidden);
  const Var candidate =
      tanh(gate_of(projected, 2, hidden) + linear(reset * before.hidden, pass(candidate_)));
  return {update * before.hidden + (1 - update) * candidate, {}};
}

}  // namespace attune
