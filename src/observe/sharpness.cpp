#include "attune/observe/sharpness.h"

#include <cmath>

#include "attune/core/error.h"
#include "attune/core/random.h"

namespace attune {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void normalise(Vector& v) {
  const double norm = std::sqrt(dot(v, v));
  for (double& x : v) x = norm > 0 ? x / norm : 0;
}

// All parameters as one vector that can be moved; back where it was when it goes.
class Place final {
 public:
  explicit Place(ParameterStore& parameters) : parameters_(parameters) {
    for (const Parameter& parameter : parameters) {
      if (parameter.dtype() != DType::float64)
        throw ShapeError("sharpness: parameter " + parameter.name() + " is float32, not float64");
      values_.push_back(parameter.value());
      size_ += static_cast<std::size_t>(parameter.value().size());
    }
  }
  ~Place() {
    for (Parameter& parameter : parameters_)
      parameter.set_value(values_[static_cast<std::size_t>(parameter.index())]);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  // w + distance * direction
  void move(const Vector& direction, double distance) {
    std::size_t next = 0;
    for (Parameter& parameter : parameters_) {
      Array moved = values_[static_cast<std::size_t>(parameter.index())].clone();
      for (double& value : moved.mutable_data<double>()) value += distance * direction[next++];
      parameter.set_value(std::move(moved));
    }
  }

 private:
  ParameterStore& parameters_;
  std::vector<Array> values_;
  std::size_t size_ = 0;
};

Vector flat(const std::vector<Array>& gradients, std::size_t size) {
  Vector result;
  result.reserve(size);
  for (const Array& gradient : gradients) {
    const auto values = gradient.data<double>();
    result.insert(result.end(), values.begin(), values.end());
  }
  if (result.size() != size)
    throw ShapeError("sharpness: " + std::to_string(result.size()) + " numbers of gradient for " +
                     std::to_string(size) + " of parameters");
  return result;
}

class PowerIteration final {
 public:
  PowerIteration(Place& place, const GradientFunction& gradient, const SharpnessOptions& options)
      : place_(place), gradient_(gradient), options_(options) {}

  // The eigenvalue of H - shift I of largest absolute value, plus the shift.
  Sharpness run(double shift) {
    const RandomStream stream = Randomness{options_.seed, 0}.stream("sharpness");
    Vector v(place_.size());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = stream.normal(i);
    normalise(v);
    Sharpness result;
    double before = 0;
    while (result.iterations < options_.most_iterations && !result.converged) {
      Vector hv = product(v);
      result.eigenvalue = dot(v, hv);
      for (std::size_t i = 0; i < v.size(); ++i) hv[i] -= shift * v[i];
      const double shifted = result.eigenvalue - shift;
      result.residual = std::sqrt(std::max(0.0, dot(hv, hv) - shifted * shifted));
      result.converged = result.iterations > 0 &&
                         std::abs(shifted - before) <= options_.tolerance * std::abs(shifted);
      ++result.iterations;
      before = shifted;
      v = std::move(hv);
      normalise(v);
    }
    return result;
  }

 private:
  Vector product(const Vector& v) {
    place_.move(v, options_.step);
    const Vector ahead = flat(gradient_(), v.size());
    place_.move(v, -options_.step);
    const Vector behind = flat(gradient_(), v.size());
    Vector result(v.size());
    for (std::size_t i = 0; i < v.size(); ++i)
      result[i] = (ahead[i] - behind[i]) / (2 * options_.step);
    return result;
  }

  Place& place_;
  const GradientFunction& gradient_;
  const SharpnessOptions& options_;
};

}  // namespace

Sharpness sharpness(ParameterStore& parameters, const GradientFunction& gradient,
                    const SharpnessOptions& options) {
  Place place(parameters);
  PowerIteration iteration(place, gradient, options);
  const Sharpness largest = iteration.run(0);
  if (largest.eigenvalue >= 0) return largest;
  Sharpness result = iteration.run(largest.eigenvalue);
  result.iterations += largest.iterations;
  return result;
}

}  // namespace attune
