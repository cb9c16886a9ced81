#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attune/nn/scope.h"
#include "ops/op_test.h"

// What the tests of layers and models share.
namespace attune {

// Parameters of a layer under test.
struct Bench {
  explicit Bench(DType dtype = DType::float64, double std = 0.5)
      : root(store, 7, dtype), init("normal", std, 2) {}

  [[nodiscard]] const Array& value(std::string_view name) { return store.find(name)->value(); }

  ParameterStore store;
  Scope root;
  InitScheme init;
};

// Gives every parameter, biases and gains too, values in [-amplitude, amplitude): a test on the
// values that layers start with would miss what multiplies by 1 or adds 0.
inline void randomize(ParameterStore& store, double amplitude = 0.5, std::uint64_t seed = 11) {
  for (Parameter& parameter : store) {
    parameter.set_value(random_array(parameter.shape(),
                                     seed + static_cast<std::uint64_t>(parameter.index()),
                                     parameter.dtype(), -amplitude, amplitude));
  }
}

[[nodiscard]] inline std::vector<std::string> names_of(const ParameterStore& store) {
  std::vector<std::string> names;
  for (const Parameter& parameter : store) names.push_back(parameter.name());
  return names;
}

// Rows [begin, end) of the first axis.
[[nodiscard]] inline Array rows_of(const Array& x, std::int64_t begin, std::int64_t end) {
  const std::vector<double> all = x.to_vector();
  const std::int64_t width = x.size() / x.shape()[0];
  const std::vector<double> part(all.begin() + begin * width, all.begin() + end * width);
  return Array::from(x.shape().with(0, end - begin), part, x.dtype());
}

// a + factor b, in float64.
[[nodiscard]] inline Array plus_scaled(const Array& a, const Array& b, double factor) {
  std::vector<double> sum = a.to_vector();
  const std::vector<double> other = b.to_vector();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * other[i];
  return Array::from(a.shape(), sum, DType::float64);
}

// Gradient of f, a scalar function of the store's parameters, checked in float64 along random
// directions: displacements of the parameters, in units of kUnit, become the inputs of
// gradcheck_directions, and the function's own tape becomes one record of its tape. A normal
// direction through a thousand parameters is long; the unit keeps third derivatives out of the
// differences.
inline void expect_parameter_gradients_match(ParameterStore& store,
                                             const std::function<Var(Tape*)>& f,
                                             double tolerance = 1e-6) {
  static constexpr double kUnit = 0.125;
  std::vector<Array> start, zeros;
  for (const Parameter& parameter : store) {
    start.push_back(parameter.value());
    zeros.push_back(Array::zeros(parameter.shape(), DType::float64));
  }
  const auto function = [&](std::span<const Var> displacements) {
    std::vector<const Var*> inputs;
    for (std::size_t i = 0; i < displacements.size(); ++i) {
      inputs.push_back(&displacements[i]);
      store[static_cast<std::int64_t>(i)].set_value(
          plus_scaled(start[i], displacements[i].value(), kUnit));
    }
    if (displacements.empty() || displacements[0].tape() == nullptr) return f(nullptr);
    Tape tape;
    const Var y = f(&tape);
    const Gradients gradients = tape.backward(y);
    std::vector<Array> slopes;
    for (std::size_t i = 0; i < zeros.size(); ++i) {
      const Array* gradient = gradients.find(store[static_cast<std::int64_t>(i)]);
      slopes.push_back(gradient ? *gradient : zeros[i]);
    }
    return record("model", std::span<const Var* const>(inputs), y.value(),
                  [slopes, zeros](const Array& dy, InputGradients& dx) {
                    for (std::size_t i = 0; i < slopes.size(); ++i) {
                      dx.add(static_cast<int>(i),
                             plus_scaled(zeros[i], slopes[i], kUnit * dy.item()));
                    }
                  });
  };
  // The error is relative to the slope: of a seed whose directions are not nearly flat.
  const GradcheckResult result = gradcheck_directions(function, zeros, 3, 4);
  EXPECT_LE(result.max_error, tolerance) << result.worst;
  for (std::size_t i = 0; i < start.size(); ++i) {
    store[static_cast<std::int64_t>(i)].set_value(start[i]);
  }
}

}  // namespace attune
