#include "attune/observe/study_distance.h"

#include <cmath>
#include <functional>

#include "attune/autodiff/tape.h"
#include "attune/nn/recurrent.h"
#include "attune/ops/shaping.h"

namespace attune {
namespace {

// Puts a leaf in the place of the embeddings.
class EmbeddingLeaf final : public Hooks {
 public:
  explicit EmbeddingLeaf(Tape& tape) : tape_(tape) {}
  Var at(HookPoint point, int, const Var& x) override {
    if (point != HookPoint::embedding) return x;
    leaf = tape_.leaf(x.value());
    return leaf;
  }
  Var leaf;

 private:
  Tape& tape_;
};

// Normal numbers for the last token's output, zeros elsewhere: dloss/dy of sum u . y_T.
Array last_token_seed(const Var& y, std::uint64_t seed) {
  const RandomStream stream = Randomness{seed, 0}.stream("study.distance");
  const std::int64_t examples = y.shape()[0], time = y.shape()[1], width = y.shape()[2];
  std::vector<double> values(static_cast<std::size_t>(y.shape().size()), 0.0);
  for (std::int64_t b = 0; b < examples; ++b) {
    const auto last = static_cast<std::size_t>((b * time + time - 1) * width);
    for (std::int64_t i = 0; i < width; ++i)
      values[last + static_cast<std::size_t>(i)] =
          stream.normal(static_cast<std::uint64_t>(b * width + i));
  }
  return Array::from(y.shape(), values, y.dtype());
}

// Root of the mean over examples of the square norm at each token, last token first, relative to
// that of the last.
std::vector<double> by_distance(const Array& gradient) {
  const auto examples = static_cast<std::size_t>(gradient.shape()[0]);
  const auto time = static_cast<std::size_t>(gradient.shape()[1]);
  const auto width = static_cast<std::size_t>(gradient.shape()[2]);
  const std::vector<double> values = gradient.to_vector();
  std::vector<double> norms(time, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t t = i / width % time;
    norms[time - 1 - t] += values[i] * values[i] / static_cast<double>(examples);
  }
  const double nearest = norms.front();
  for (double& norm : norms) norm = std::sqrt(norm / nearest);
  return norms;
}

std::vector<double> reach_of_cell(const RecurrentCell& cell, const Array& embeddings,
                                  std::uint64_t seed) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const Var x = tape.leaf(embeddings);
  const Var y = cell(x, pass);
  return by_distance(tape.backward(y, last_token_seed(y, seed))[x]);
}

}  // namespace

GradientReach gradient_reach(const Transformer& model, const TokenBatch& batch,
                             std::uint64_t seed) {
  GradientReach result;
  Tape tape;
  EmbeddingLeaf hook(tape);
  Pass pass;
  pass.tape = &tape;
  pass.hooks = &hook;
  const Var y = model.hidden(batch, pass);
  const Array embeddings = hook.leaf.value();
  result.attention = by_distance(tape.backward(y, last_token_seed(y, seed))[hook.leaf]);

  ParameterStore store;
  const Scope root(store, seed, model.dtype());
  const InitScheme init(model.config().init, model.config().init_std, 1);
  const RecurrentConfig config{model.config().n_embd, model.config().n_embd};
  result.rnn = reach_of_cell(Rnn(root / "rnn", config, init), embeddings, seed);
  result.lstm = reach_of_cell(Lstm(root / "lstm", config, init), embeddings, seed);
  return result;
}

}  // namespace attune
