#include "attune/observe/gradcheck_suite.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/core/random.h"
#include "observe/gradcheck_suite_cases.h"

namespace attune {

// The module runs on a tape of its own, which is one record of the tape that gradcheck
// differentiates: gradcheck's leaves are the values of the parameters, not the parameters.
namespace {

struct ModuleBackward {
  std::unique_ptr<Tape> tape;  // declared first: it outlives the Vars
  std::vector<Var> leaves;
  Var y;
  const ParameterStore* store;

  void operator()(const Array& dy, InputGradients& dx) {
    const Gradients gradients = tape->backward(y, dy);
    int input = 0;
    for (const Var& leaf : leaves) dx.add(input++, gradients[leaf]);
    for (const Parameter& parameter : *store) {
      if (const Array* gradient = gradients.find(parameter)) {
        dx.add(input++, *gradient);
      } else {
        dx.none(input++);
      }
    }
  }
};

Var call_module(ParameterStore& store, std::size_t inputs, const ModuleFunction& f, Pass pass,
                std::span<const Var> values) {
  std::vector<const Var*> addresses;
  bool differentiates = false;
  for (const Var& value : values) {
    addresses.push_back(&value);
    differentiates = differentiates || value.tape() != nullptr;
  }
  for (Parameter& parameter : store) {
    parameter.set_value(values[inputs + static_cast<std::size_t>(parameter.index())].value());
  }
  pass.tape = nullptr;
  if (!differentiates) return f(values.first(inputs), pass);
  ModuleBackward backward{std::make_unique<Tape>(), {}, {}, &store};
  for (const Var& value : values.first(inputs)) {
    backward.leaves.push_back(backward.tape->leaf(value.value()));
  }
  pass.tape = backward.tape.get();
  backward.y = f(backward.leaves, pass);
  const Array y = backward.y.value();
  return record("module", addresses, y, std::move(backward));
}

}  // namespace

DifferentiableFunction with_parameters(ParameterStore& store, std::size_t inputs, ModuleFunction f,
                                       const Pass& pass) {
  return [&store, inputs, f = std::move(f), pass](std::span<const Var> values) {
    const std::size_t expected = inputs + static_cast<std::size_t>(store.count());
    if (values.size() != expected) {
      throw UsageError(
          fmt::format("with_parameters: {} values for {} inputs and {} parameters were given",
                      values.size(), inputs, store.count()));
    }
    return call_module(store, inputs, f, pass, values);
  };
}

std::vector<GradcheckCase> gradcheck_cases() {
  using namespace gradcheck_suite;
  Cases cases;
  add_unary(cases);
  add_arithmetic(cases);
  add_products(cases);
  add_reductions(cases);
  add_shaping(cases);
  add_normalisation(cases);
  add_attention(cases);
  add_layers(cases);
  add_mechanisms(cases);
  add_models(cases);
  return cases;
}

std::size_t GradcheckReport::failures() const {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [](const GradcheckRow& row) { return !row.passed; }));
}

GradcheckReport run_gradcheck(std::span<const GradcheckCase> cases, double tolerance) {
  GradcheckReport report{tolerance, {}};
  for (const GradcheckCase& one : cases) {
    try {
      const GradcheckResult result =
          one.directions > 0 ? gradcheck_directions(one.function, one.inputs, one.directions)
                             : gradcheck(one.function, one.inputs);
      report.rows.push_back({one.name, result.max_error, result.worst, result.passes(tolerance)});
    } catch (const Error& error) {
      report.rows.push_back(
          {one.name, std::numeric_limits<double>::infinity(), error.what(), false});
    }
  }
  return report;
}

std::string to_text(const GradcheckReport& report) {
  std::size_t width = 0;
  for (const GradcheckRow& row : report.rows) width = std::max(width, row.name.size());
  std::string text = fmt::format("{:<{}}  {:>9}\n", "gradient of", width, "error");
  for (const GradcheckRow& row : report.rows) {
    text += fmt::format("{:<{}}  {:>9.1e}  {}\n", row.name, width, row.max_error,
                        row.passed ? "ok" : "WRONG");
  }
  if (report.failures() == 0) {
    text += fmt::format("gradcheck: {} gradients agree with finite differences within {}\n",
                        report.rows.size(), report.tolerance);
    return text;
  }
  text += fmt::format("gradcheck: {} of {} gradients are off by more than {}\n", report.failures(),
                      report.rows.size(), report.tolerance);
  for (const GradcheckRow& row : report.rows) {
    if (!row.passed) text += fmt::format("gradcheck: {} is wrong: {}\n", row.name, row.worst);
  }
  return text;
}

namespace gradcheck_suite {

Array uniform(const Shape& shape, std::uint64_t seed, double low, double high) {
  const RandomStream stream = Randomness{.seed = seed}.stream("gradcheck.input");
  Array values = Array::uninitialized(shape, DType::float64);
  std::uint64_t index = 0;
  for (double& value : values.mutable_data<double>()) {
    value = low + (high - low) * stream.uniform(index++);
  }
  return values;
}

Array away_from_zero(const Shape& shape, std::uint64_t seed) {
  Array values = uniform(shape, seed);
  for (double& value : values.mutable_data<double>()) value = std::copysign(0.1, value) + value;
  return values;
}

Array flags(const Shape& shape, std::uint64_t seed) {
  Array values = uniform(shape, seed);
  for (double& value : values.mutable_data<double>()) value = value < 0.3 ? 1 : 0;
  if (values.size() > 1) {
    values.mutable_data<double>().front() = 1;
    values.mutable_data<double>().back() = 0;
  }
  return values;
}

GradcheckCase uniform_case(std::string name, std::vector<Shape> shapes,
                           DifferentiableFunction function) {
  std::vector<Array> inputs;
  for (const Shape& shape : shapes) inputs.push_back(uniform(shape, 1 + inputs.size()));
  return {std::move(name), std::move(function), std::move(inputs)};
}

}  // namespace gradcheck_suite
}  // namespace attune
