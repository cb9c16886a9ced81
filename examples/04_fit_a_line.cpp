// The smallest training loop: two parameters, a tape for each step, an optimizer. Gradient descent
// and Adam must both arrive at the least-squares line, which is known in closed form.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <attune/autodiff/tape.h>
#include <attune/core/random.h>
#include <attune/ops/arithmetic.h>
#include <attune/ops/reduce.h>
#include <attune/ops/unary.h>
#include <attune/optim/optimizer.h>
#include <attune/optim/schedule.h>

using attune::Array;
using attune::DType;
using attune::Parameter;
using attune::Var;

namespace {

struct Line {
  double slope;
  double intercept;
};

// Minimises sum (slope x + intercept - y)^2 / n.
Line least_squares(const std::vector<double>& x, const std::vector<double>& y) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  const auto n = static_cast<double>(x.size());
  const double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  return {slope, (sy - slope * sx) / n};
}

Line descend(const std::string& kind, const Array& x, const Array& y) {
  attune::ParameterStore store;
  const Parameter& slope = store.create("slope", Array::scalar(0, DType::float64));
  const Parameter& intercept = store.create("intercept", Array::scalar(0, DType::float64));
  const auto optimizer = attune::make_optimizer({.kind = kind, .weight_decay = 0});
  const attune::ScheduleConfig schedule{.lr = 0.05, .min_lr = 0, .decay_iters = 1000};

  std::printf("%s\n", kind.c_str());
  attune::Tape tape;
  for (std::int64_t step = 0; step <= 1000; ++step) {
    tape.clear();  // forgets the records of the last step, keeps their memory
    const Var prediction = tape.parameter(slope) * Var(x) + tape.parameter(intercept);
    const Var loss = mean(square(prediction - Var(y)));
    if (step % 250 == 0)
      std::printf("  step %4d  loss %.9f\n", static_cast<int>(step), loss.value().item());
    const attune::Gradients gradients = tape.backward(loss);
    optimizer->step(store, gradients, attune::learning_rate(schedule, step));
  }
  return {slope.value().item(), intercept.value().item()};
}

}  // namespace

int main() {
  const attune::RandomStream noise = attune::Randomness{.seed = 1}.stream("noise");
  std::vector<double> x, y;
  for (std::uint64_t i = 0; i < 50; ++i) {
    x.push_back(static_cast<double>(i) / 25 - 1);
    y.push_back(2 * x.back() - 1 + 0.1 * noise.normal(i));
  }
  const Line best = least_squares(x, y);
  std::printf("least squares: y = %.6f x %+.6f\n", best.slope, best.intercept);

  for (const std::string kind : {"sgd", "adamw"}) {
    const Line found =
        descend(kind, Array::from({50}, x, DType::float64), Array::from({50}, y, DType::float64));
    std::printf("  y = %.6f x %+.6f\n", found.slope, found.intercept);
    if (!(std::hypot(found.slope - best.slope, found.intercept - best.intercept) <= 1e-6)) {
      std::printf("%s did not reach the least-squares line\n", kind.c_str());
      return 1;
    }
  }
  return 0;
}
