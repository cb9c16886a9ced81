#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/core/random.h"
#include "attune/core/text.h"
#include "attune/observe/gradcheck_suite.h"

namespace attune {
namespace {

constexpr std::array kSteps = {1e-4, 1e-5, 1e-6};
// Below this a slope is rounding: the difference of two losses near 1 over the longest step.
constexpr double kSmallestSlope = 1e-6;

// A random direction of length 1.
std::vector<double> unit_direction(std::int64_t count, const RandomStream& stream) {
  std::vector<double> direction(static_cast<std::size_t>(count));
  double squares = 0;
  std::uint64_t index = 0;
  for (double& component : direction) {
    component = stream.normal(index++);
    squares += component * component;
  }
  for (double& component : direction) component /= std::sqrt(squares);
  return direction;
}

Array moved(const Array& origin, std::span<const double> direction, double step) {
  Array values = origin.clone();
  const std::span<double> elements = values.mutable_data<double>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] += step * direction[i];
  return values;
}

// One parameter of the loss, put back when the check ends, also by an exception.
class OneParameter final {
 public:
  OneParameter(Parameter& parameter, const std::function<double()>& loss)
      : parameter_(parameter), origin_(parameter.value()), loss_(loss) {}
  ~OneParameter() { parameter_.set_value(origin_); }
  OneParameter(const OneParameter&) = delete;
  OneParameter& operator=(const OneParameter&) = delete;

  // (loss(x + step d) - loss(x - step d)) / 2 step
  [[nodiscard]] double slope(std::span<const double> direction, double step) {
    return (loss_at(direction, step) - loss_at(direction, -step)) / (2 * step);
  }

 private:
  double loss_at(std::span<const double> direction, double step) {
    parameter_.set_value(moved(origin_, direction, step));
    return loss_();
  }

  Parameter& parameter_;
  Array origin_;
  const std::function<double()>& loss_;
};

struct Comparison {
  double error;
  double numeric;
};

// The best agreement of all steps.
Comparison compare(OneParameter& parameter, std::span<const double> direction, double analytic,
                   double typical, double tolerance) {
  Comparison best{std::numeric_limits<double>::infinity(), 0};
  for (const double step : kSteps) {
    const double numeric = parameter.slope(direction, step);
    const double scale = std::max({std::abs(analytic), std::abs(numeric), typical, kSmallestSlope});
    const double error = std::abs(analytic - numeric) / scale;
    if (error < best.error || step == kSteps.front()) best = {error, numeric};
    if (best.error <= tolerance) break;
  }
  if (!std::isfinite(best.error)) best.error = std::numeric_limits<double>::infinity();
  return best;
}

GradcheckRow check_parameter(Parameter& parameter, const Array& gradient,
                             const std::function<double()>& loss, const ParameterCheck& options) {
  GradcheckRow row{parameter.name(), 0, "", true};
  OneParameter one(parameter, loss);
  const std::span<const double> slopes = gradient.data<double>();
  double squares = 0;
  for (const double slope : slopes) squares += slope * slope;
  const double typical = std::sqrt(squares / std::max(1.0, static_cast<double>(slopes.size())));
  for (int d = 0; d < options.directions; ++d) {
    const Randomness random{options.seed, static_cast<std::uint32_t>(d)};
    const std::vector<double> direction =
        unit_direction(gradient.size(), random.stream("gradcheck." + parameter.name()));
    double analytic = 0;
    for (std::size_t i = 0; i < slopes.size(); ++i) analytic += slopes[i] * direction[i];
    const Comparison found = compare(one, direction, analytic, typical, options.tolerance);
    if (found.error < row.max_error) continue;
    row.max_error = found.error;
    row.worst = to_string(parameter.shape()) + " in direction " + std::to_string(d) +
                ": analytic " + format_float(analytic) + ", numeric " + format_float(found.numeric);
  }
  row.passed = row.max_error <= options.tolerance;
  return row;
}

}  // namespace

GradcheckReport gradcheck_parameters(ParameterStore& store,
                                     const std::function<Var(const Pass&)>& loss, const Pass& pass,
                                     const ParameterCheck& options) {
  Tape tape;
  Pass recorded = pass;
  recorded.tape = &tape;
  const Gradients gradients = tape.backward(loss(recorded));
  Pass plain = pass;
  plain.tape = nullptr;
  const std::function<double()> value = [&] { return loss(plain).value().item(); };

  GradcheckReport report{options.tolerance, {}};
  for (Parameter& parameter : store) {
    const bool wanted = parameter.name().find(options.only) != std::string::npos;
    if (!wanted || parameter.is_frozen()) continue;
    if (parameter.dtype() != DType::float64) {
      throw ShapeError("gradcheck: the parameter " + parameter.name() + " is not float64");
    }
    const Array* gradient = gradients.find(parameter);
    const Array nothing = gradient ? Array() : Array::zeros(parameter.shape(), DType::float64);
    report.rows.push_back(
        check_parameter(parameter, gradient ? *gradient : nothing, value, options));
  }
  return report;
}

void spread_parameters(ParameterStore& store, std::uint64_t seed) {
  for (Parameter& parameter : store) {
    const RandomStream stream = Randomness{seed, 0}.stream("gradcheck.value." + parameter.name());
    const bool is_matrix = parameter.shape().rank() >= 2;
    const double deviation =
        is_matrix ? 1 / std::sqrt(static_cast<double>(parameter.shape().last())) : 0.1;
    Array values = parameter.value().cast(DType::float64).clone();
    std::uint64_t index = 0;
    for (double& value : values.mutable_data<double>()) {
      value = (is_matrix ? 0 : value) + deviation * stream.normal(index++);
    }
    parameter.set_value(values.cast(parameter.dtype()));
  }
}

}  // namespace attune
