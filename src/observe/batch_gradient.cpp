#include "attune/observe/batch_gradient.h"

#include <cmath>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"

namespace attune {

BatchGradient batch_gradient(const Transformer& model, const Batch& batch,
                             const BatchWatchers& watchers) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  pass.hooks = watchers.hooks;
  pass.statistics = watchers.statistics;
  const CrossEntropy loss =
      model.loss({batch.tokens, batch.examples, batch.time}, batch.targets, pass);
  if (loss.scored == 0) throw ConfigError("the batch asks for no token: nothing is scored");
  const Gradients gradients = tape.backward(loss.loss_sum, watchers.gradients);

  BatchGradient result;
  result.scored = loss.scored;
  result.loss_nats = loss.nats / static_cast<double>(loss.scored);
  for (const Parameter& parameter : model.parameters()) {
    const Array* gradient = gradients.find(parameter);
    result.of_sum.push_back(gradient ? *gradient
                                     : Array::zeros(parameter.shape(), parameter.dtype()));
  }
  return result;
}

double sum_of_squares(const Array& array) {
  return dispatch(array.dtype(), [&]<class T>() {
    double sum = 0;
    for (const T value : array.data<T>())
      sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
  });
}

double root_mean_square(const Array& array) {
  return array.size() == 0 ? 0
                           : std::sqrt(sum_of_squares(array) / static_cast<double>(array.size()));
}

}  // namespace attune
