#include "attune/observe/study_rank.h"

#include <cmath>

#include "attune/nn/hooks.h"

namespace attune {
namespace {

// x: [time, model] of one example.
LayerRank rank_of(std::span<const double> x, std::size_t time, std::size_t model) {
  std::vector<double> mean(model, 0), direction(model, 0);
  double all = 0, tokens = 0;
  for (std::size_t t = 0; t < time; ++t) {
    double square = 0;
    for (std::size_t i = 0; i < model; ++i) {
      const double value = x[t * model + i];
      mean[i] += value / static_cast<double>(time);
      square += value * value;
    }
    all += square;
    if (square == 0) continue;
    ++tokens;
    for (std::size_t i = 0; i < model; ++i) direction[i] += x[t * model + i] / std::sqrt(square);
  }
  double apart = 0, sum_square = 0;
  for (std::size_t t = 0; t < time; ++t) {
    for (std::size_t i = 0; i < model; ++i) {
      const double difference = x[t * model + i] - mean[i];
      apart += difference * difference;
    }
  }
  // The square of the sum of unit vectors is the sum of all their cosines, their own included.
  for (const double value : direction) sum_square += value * value;
  const double pairs = tokens * (tokens - 1);
  return {all > 0 ? std::sqrt(apart / all) : 0, pairs > 0 ? (sum_square - tokens) / pairs : 1};
}

class Watcher final : public Hooks {
 public:
  Var at(HookPoint point, int, const Var& x) override {
    if (point == HookPoint::embedding || point == HookPoint::residual_post) add(x.value());
    return x;
  }
  std::vector<LayerRank> layers;

 private:
  void add(const Array& x) {
    const auto examples = static_cast<std::size_t>(x.shape()[0]);
    const auto time = static_cast<std::size_t>(x.shape()[1]);
    const auto model = static_cast<std::size_t>(x.shape()[2]);
    const std::vector<double> values = x.to_vector();
    LayerRank mean;
    for (std::size_t b = 0; b < examples; ++b) {
      const LayerRank one =
          rank_of(std::span(values).subspan(b * time * model, time * model), time, model);
      mean.residual += one.residual / static_cast<double>(examples);
      mean.cosine += one.cosine / static_cast<double>(examples);
    }
    layers.push_back(mean);
  }
};

}  // namespace

std::vector<LayerRank> study_rank(const Transformer& model, const Batch& batch) {
  Watcher watcher;
  Pass pass;
  pass.hooks = &watcher;
  (void)model.hidden({batch.tokens, batch.examples, batch.time}, pass);
  return watcher.layers;
}

}  // namespace attune
