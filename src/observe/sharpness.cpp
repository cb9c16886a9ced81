#include "attune/observe/sharpness.h"

#include <algorithm>
#include <array>
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

// All parameters as one vector that can be moved; back where it was when it goes.
class ParameterPlace final {
 public:
  explicit ParameterPlace(ParameterStore& parameters) : parameters_(parameters) {
    for (const Parameter& parameter : parameters) {
      if (parameter.dtype() != DType::float64)
        throw ShapeError("sharpness: parameter " + parameter.name() + " is float32, not float64");
      values_.push_back(parameter.value());
      size_ += static_cast<std::size_t>(parameter.value().size());
    }
  }
  ~ParameterPlace() {
    for (Parameter& parameter : parameters_)
      parameter.set_value(values_[static_cast<std::size_t>(parameter.index())]);
  }
  ParameterPlace(const ParameterPlace&) = delete;
  ParameterPlace& operator=(const ParameterPlace&) = delete;

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

// A direction and what the Hessian makes of it.
struct Direction {
  Vector v, hv;

  void add(double factor, const Direction& other) {
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] += factor * other.v[i];
      hv[i] += factor * other.hv[i];
    }
  }
  // Returns the norm that it had.
  double normalise() {
    const double norm = std::sqrt(dot(v, v));
    for (double& x : v) x = norm > 0 ? x / norm : 0;
    for (double& x : hv) x = norm > 0 ? x / norm : 0;
    return norm;
  }
};

using Small = std::array<std::array<double, 3>, 3>;

// The unit eigenvector of the largest eigenvalue of a symmetric matrix (Jacobi 1846): rotations
// that take one element off the diagonal away at a time.
std::array<double, 3> largest_eigenvector(Small a) {
  Small vectors{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t p = 0; p < 2; ++p) {
      for (std::size_t q = p + 1; q < 3; ++q) {
        const double angle = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (std::size_t k = 0; k < 3; ++k) {
          const double kp = a[k][p], kq = a[k][q];
          a[k][p] = c * kp - s * kq;
          a[k][q] = s * kp + c * kq;
          const double vp = vectors[k][p], vq = vectors[k][q];
          vectors[k][p] = c * vp - s * vq;
          vectors[k][q] = s * vp + c * vq;
        }
        for (std::size_t k = 0; k < 3; ++k) {
          const double pk = a[p][k], qk = a[q][k];
          a[p][k] = c * pk - s * qk;
          a[q][k] = s * pk + c * qk;
        }
      }
    }
  }
  std::size_t best = 0;
  for (std::size_t k = 1; k < 3; ++k) best = a[k][k] > a[best][best] ? k : best;
  return {vectors[0][best], vectors[1][best], vectors[2][best]};
}

class PowerIteration final {
 public:
  PowerIteration(ParameterPlace& place, const GradientFunction& gradient,
                 const SharpnessOptions& options)
      : place_(place), gradient_(gradient), options_(options) {}

  Sharpness run() {
    const RandomStream stream = Randomness{options_.seed, 0}.stream("sharpness");
    Direction now{Vector(place_.size()), Vector(place_.size())};
    for (std::size_t i = 0; i < now.v.size(); ++i) now.v[i] = stream.normal(i);
    now.normalise();
    now.hv = product(now.v);
    Direction before;
    Sharpness result;
    Vector residual = judge(now, result);
    while (result.iterations < options_.most_iterations && !result.converged) {
      advance(now, before, std::move(residual));
      ++result.iterations;
      residual = judge(now, result);
      if (!result.converged) continue;
      now.hv = product(now.v);  // without what rounding has left of earlier ones
      residual = judge(now, result);
    }
    return result;
  }

 private:
  // H v - lambda v; and what it says of lambda.
  Vector judge(const Direction& now, Sharpness& result) const {
    result.eigenvalue = dot(now.v, now.hv);
    Vector residual = now.hv;
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] -= result.eigenvalue * now.v[i];
    result.residual = std::sqrt(dot(residual, residual));
    result.converged = result.residual <= options_.tolerance * std::abs(result.eigenvalue);
    return residual;
  }

  // To the best vector in the span of `now`, the residual and the step before.
  void advance(Direction& now, Direction& before, Vector residual) {
    Direction ahead{std::move(residual), Vector(now.v.size(), 0.0)};
    ahead.add(-dot(now.v, ahead.v), {now.v, Vector(now.v.size(), 0.0)});
    ahead.normalise();
    ahead.hv = product(ahead.v);
    if (before.v.empty()) before = {Vector(now.v.size(), 0.0), Vector(now.v.size(), 0.0)};
    for (int twice = 0; twice < 2; ++twice) {
      before.add(-dot(now.v, before.v), now);
      before.add(-dot(ahead.v, before.v), ahead);
      if (before.normalise() < 1e-8 && twice == 0) {  // nothing of its own is left
        before.v.assign(now.v.size(), 0.0);
        before.hv = before.v;
      }
    }
    const std::array<const Direction*, 3> basis{&now, &ahead, &before};
    Small small{};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        small[i][j] = (dot(basis[i]->v, basis[j]->hv) + dot(basis[j]->v, basis[i]->hv)) / 2;
    // A direction of zeros must not win over negative eigenvalues.
    if (dot(before.v, before.v) == 0) small[2][2] = std::min(small[0][0], small[1][1]) - 1;
    const std::array<double, 3> best = largest_eigenvector(small);
    Direction step{Vector(now.v.size(), 0.0), Vector(now.v.size(), 0.0)};
    step.add(best[1], ahead);
    step.add(best[2], before);
    Direction next = step;
    next.add(best[0], now);
    next.normalise();
    step.normalise();
    before = std::move(step);
    now = std::move(next);
  }

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

  ParameterPlace& place_;
  const GradientFunction& gradient_;
  const SharpnessOptions& options_;
};

}  // namespace

Sharpness sharpness(ParameterStore& parameters, const GradientFunction& gradient,
                    const SharpnessOptions& options) {
  ParameterPlace place(parameters);
  return PowerIteration(place, gradient, options).run();
}

}  // namespace attune
