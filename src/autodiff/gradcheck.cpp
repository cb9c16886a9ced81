#include "attune/autodiff/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/core/random.h"
#include "attune/core/text.h"

namespace attune {
namespace {

// Weight i of the scalar that is differentiated: distinct, so that no error of one element hides
// behind another's.
double weight(std::int64_t i) {
  const double magnitude = 0.5 + 0.5 * (1 + std::sin(1.7 * static_cast<double>(i) + 0.3));
  return i % 2 == 0 ? magnitude : -magnitude;
}

Array weights_like(const Var& y) {
  Array weights = Array::uninitialized(y.shape(), DType::float64);
  std::int64_t i = 0;
  for (double& w : weights.mutable_data<double>()) w = weight(i++);
  return weights;
}

// sum_i w_i f(inputs)_i without a tape.
double weighted_sum(const DifferentiableFunction& f, std::span<const Array> inputs) {
  const std::vector<Var> constants(inputs.begin(), inputs.end());
  const Var y = f(constants);
  double sum = 0;
  std::int64_t i = 0;
  for (const double value : y.value().data<double>()) sum += weight(i++) * value;
  return sum;
}

std::vector<Array> analytic_gradients(const DifferentiableFunction& f,
                                      std::span<const Array> inputs) {
  Tape tape;
  std::vector<Var> leaves;
  for (const Array& input : inputs) leaves.push_back(tape.leaf(input));
  const Var y = f(leaves);
  if (y.tape() == nullptr) {
    throw UsageError("gradcheck: the function's result does not depend on its inputs");
  }
  const Gradients gradients = tape.backward(y, weights_like(y));
  std::vector<Array> result;
  for (const Var& leaf : leaves) result.push_back(gradients[leaf]);
  return result;
}

void require_float64(std::span<const Array> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::float64) {
      throw ShapeError("gradcheck: input " + std::to_string(i) + " is not float64");
    }
  }
}

void note(GradcheckResult& result, double analytic, double numeric, double scale,
          const std::string& where) {
  double error = std::abs(analytic - numeric) / scale;
  if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
  if (error < result.max_error) return;
  result.max_error = error;
  result.worst =
      where + ": analytic " + format_float(analytic) + ", numeric " + format_float(numeric);
}

}  // namespace

GradcheckResult gradcheck(const DifferentiableFunction& f, std::vector<Array> inputs) {
  require_float64(inputs);
  const std::vector<Array> analytic = analytic_gradients(f, inputs);
  GradcheckResult result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Array original = inputs[i];
    const auto count = static_cast<std::size_t>(original.size());
    std::vector<double> numeric(count);
    double scale = 1e-3;
    for (std::size_t j = 0; j < count; ++j) {
      const double x = original.data<double>()[j];
      const double h = 1e-5 * std::max(1.0, std::abs(x));
      const auto at = [&](double value) {
        inputs[i] = original.clone();
        inputs[i].mutable_data<double>()[j] = value;
        return weighted_sum(f, inputs);
      };
      numeric[j] = (at(x + h) - at(x - h)) / (2 * h);
      scale = std::max({scale, std::abs(numeric[j]), std::abs(analytic[i].data<double>()[j])});
    }
    inputs[i] = original;
    for (std::size_t j = 0; j < count; ++j) {
      note(result, analytic[i].data<double>()[j], numeric[j], scale,
           "input " + std::to_string(i) + " " + to_string(original.shape()) + " at " +
               std::to_string(j));
    }
  }
  return result;
}

GradcheckResult gradcheck_directions(const DifferentiableFunction& f, std::vector<Array> inputs,
                                     int directions, std::uint64_t seed) {
  require_float64(inputs);
  const std::vector<Array> analytic = analytic_gradients(f, inputs);
  constexpr double h = 1e-5;
  GradcheckResult result;
  for (int d = 0; d < directions; ++d) {
    const RandomStream stream = Randomness{seed, static_cast<std::uint32_t>(d)}.stream("gradcheck");
    std::vector<Array> up, down;
    double slope = 0;
    std::uint64_t index = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      up.push_back(inputs[i].clone());
      down.push_back(inputs[i].clone());
      const std::span<double> higher = up.back().mutable_data<double>();
      const std::span<double> lower = down.back().mutable_data<double>();
      for (std::size_t j = 0; j < higher.size(); ++j) {
        const double step = stream.normal(index++);
        higher[j] += h * step;
        lower[j] -= h * step;
        slope += step * analytic[i].data<double>()[j];
      }
    }
    const double numeric = (weighted_sum(f, up) - weighted_sum(f, down)) / (2 * h);
    note(result, slope, numeric, std::max({1e-3, std::abs(slope), std::abs(numeric)}),
         "direction " + std::to_string(d));
  }
  return result;
}

}  // namespace attune
