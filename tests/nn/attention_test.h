#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attune/nn/pass.h"
#include "attune/optim/optimizer.h"
#include "nn/layer_test.h"

// What the tests of the kinds of attention share.
namespace attune {

using Row = std::vector<double>;

// Row (b, t) of x [batch, time, width].
[[nodiscard]] inline Row row_of(const Array& x, std::int64_t b, std::int64_t t) {
  Row row;
  for (std::int64_t c = 0; c < x.shape()[2]; ++c) row.push_back(x.at({b, t, c}));
  return row;
}

// W x + b of the parameters <name>.weight and, where there is one, <name>.bias.
[[nodiscard]] inline Row mapped(Bench& bench, const std::string& name, const Row& x) {
  const Array& weight = bench.value(name + ".weight");
  const Parameter* bias = bench.store.find(name + ".bias");
  Row y;
  for (std::int64_t o = 0; o < weight.shape()[0]; ++o) {
    double sum = bias ? bias->value().at({o}) : 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      sum += weight.at({o, static_cast<std::int64_t>(c)}) * x[c];
    }
    y.push_back(sum);
  }
  return y;
}

[[nodiscard]] inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// e^score / sum, of the scores that are not NaN; 0 for the others.
[[nodiscard]] inline Row softmax_of(const Row& scores) {
  double largest = -INFINITY, sum = 0;
  for (const double score : scores) largest = std::fmax(largest, score);
  Row weights;
  for (const double score : scores) {
    weights.push_back(std::isnan(score) ? 0 : std::exp(score - largest));
    sum += weights.back();
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 0;
  return weights;
}

// y += factor x
inline void add_to(Row& y, double factor, const Row& x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

// Entries [first, first + count).
[[nodiscard]] inline Row part(const Row& x, std::int64_t first, std::int64_t count) {
  return {x.begin() + first, x.begin() + first + count};
}

inline void append(Row& to, const Row& more) { to.insert(to.end(), more.begin(), more.end()); }

// AdamW without decay on loss(pass) of each step, the pass' random.step.
inline void descend(ParameterStore& store, int steps, double lr,
                    const std::function<Var(const Pass&)>& loss) {
  const auto optimizer = make_optimizer({.beta2 = 0.99, .weight_decay = 0});
  Tape tape;
  for (int step = 0; step < steps; ++step) {
    tape.clear();
    Pass pass;
    pass.tape = &tape;
    pass.training = true;
    pass.random = {.seed = 5, .step = static_cast<std::uint32_t>(step)};
    optimizer->step(store, tape.backward(loss(pass)), lr);
  }
}

}  // namespace attune
