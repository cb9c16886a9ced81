#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "attune/autodiff/gradients.h"
#include "attune/autodiff/parameter.h"
#include "attune/core/thread_pool.h"

namespace attune {

struct OptimizerConfig {
  std::string kind = "adamw";  // adamw, adam (decay added to the gradient), sgd
  double beta1 = 0.9;          // share of the mean gradient kept each update, [0, 1)
  double beta2 = 0.99;         // share of the mean square kept each update, [0, 1)
  double eps = 1e-8;           // added to the root of the mean square
  double momentum = 0.9;       // sgd
  // Per unit of learning rate: w -= lr * weight_decay * w; only parameters that decay.
  double weight_decay = 0.1;
};
// Throws ConfigError naming the option for an unknown kind or a value outside its domain.
void check(const OptimizerConfig& config);

// What an update did, by parameter index: sums of squares over its elements, added up in double in
// a fixed order; 0 for a parameter that was left alone.
struct UpdateStatistics {
  std::vector<double> weight_squares;  // of the weights before the update
  std::vector<double> update_squares;  // of the weights after it less those before
};

// Updates parameters from gradients. State (moments) is one array a parameter and kind, in float32
// or float64 like the parameter.
//   adamw (Loshchilov & Hutter 2019), update number t from 1:
//     m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
//     w = w - lr weight_decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//   adam (Kingma & Ba 2015): the same with g + weight_decay w for g and no decay of w.
//   sgd: m = momentum m + g + weight_decay w;   w = w - lr m
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update. gradients[i] belongs to parameter i of the store, null to leave it alone; each is
  // multiplied by gradient_scale (clipping, 1/count) as it is read. Frozen parameters are left
  // alone. Parameters are spread over the pool; the result does not depend on its size. The update
  // number t counts calls, also for a parameter that was left alone in some of them. Throws
  // ShapeError, before anything is written, where a gradient does not fit its parameter. Where
  // asked for, `statistics` is filled; the update is the same bit by bit.
  void step(ParameterStore& parameters, std::span<const Array> gradients, double gradient_scale,
            double lr, ThreadPool& pool, UpdateStatistics* statistics = nullptr) {
    update(parameters, gradients, gradient_scale, lr, pool, statistics);
  }
  // One update from the gradients of one tape, on the calling thread: for a training loop of one's
  // own. Parameters that the tape did not touch are left alone, leaves are passed over. Throws
  // UsageError for a parameter of another store.
  void step(ParameterStore& parameters, const Gradients& gradients, double lr);

  // Updates made so far, and the state for checkpoints: ("optim.m.<parameter>", array) ...
  [[nodiscard]] virtual std::int64_t updates() const = 0;
  [[nodiscard]] virtual std::vector<std::pair<std::string, Array>> state(
      const ParameterStore& parameters) const = 0;
  // Restores what state() gave. Throws IoError where an array is missing, belongs to no parameter
  // or has another shape or dtype; the optimizer is then as it was.
  virtual void restore(const ParameterStore& parameters, std::int64_t updates,
                       std::span<const std::pair<std::string, Array>> state) = 0;

 private:
  // step() of a whole store; `statistics` may be null.
  virtual void update(ParameterStore& parameters, std::span<const Array> gradients,
                      double gradient_scale, double lr, ThreadPool& pool,
                      UpdateStatistics* statistics) = 0;
};
// Throws ConfigError as check() does.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config);

}  // namespace attune
