#include "attune/observe/gaussian_entropy.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/error.h"

namespace attune {
namespace {

// The integrands are analytic in strips around the real axis and fall off at both ends, so that the
// trapezoid rule is exact up to e^(-2 pi width / step): here below 1e-10.
constexpr double kStepOfLog = 0.2;  // of u = ln t; the strip is pi/2 wide on each side
constexpr double kNormalReach = 8;
constexpr double kTail = 32;  // e^-32 is nothing beside 1

// Of z, in standard deviations; the strip of exp(-t e^(s z)) is pi/(2s) wide.
double normal_step(double s) { return std::min(0.25, 0.4 / std::max(s, 1e-9)); }

}  // namespace

GaussianEntropy::GaussianEntropy(double score_std) : variance_(score_std * score_std) {
  if (!(score_std >= 0 && score_std <= 50))
    throw ValueError(
        fmt::format("gaussian entropy: a score deviation of {}, expected 0 to 50", score_std));
  // phi(t) begins to fall where the largest e^x meets 1/t and is nothing where the smallest does.
  const double reach = kNormalReach * score_std;
  // The nodes are powers on each side of t = 1, so that rows of any length meet them alike.
  const auto first = static_cast<std::int64_t>(std::floor((-reach - kTail) / kStepOfLog));
  const auto last = static_cast<std::int64_t>(std::ceil((reach + 5) / kStepOfLog));
  const double normal = normal_step(score_std);
  const auto normal_nodes = static_cast<std::int64_t>(kNormalReach / normal);
  for (std::int64_t i = first; i <= last; ++i) {
    const double u = static_cast<double>(i) * kStepOfLog;
    double lost = 0, second = 0, total = 0;  // 1 - phi, without cancellation for small t
    for (std::int64_t k = -normal_nodes; k <= normal_nodes; ++k) {
      const double z = static_cast<double>(k) * normal;
      const double density = std::exp(-z * z / 2);
      const double te = std::exp(u + score_std * z);
      total += density;
      lost += density * -std::expm1(-te);
      second += density * te * te * std::exp(-te);
    }
    t_.push_back(std::exp(u));
    log_phi_.push_back(std::log1p(-lost / total));
    second_moment_.push_back(second / total);
  }
}

double GaussianEntropy::nats(std::int64_t keys) const {
  if (keys < 1)
    throw ValueError(fmt::format("gaussian entropy: {} keys, expected 1 or more", keys));
  if (keys == 1) return 0;
  const auto n = static_cast<double>(keys);
  double log_z = 0, square = 0;
  for (std::size_t i = 0; i < t_.size(); ++i) {
    log_z += std::exp(-t_[i]) - std::exp(n * log_phi_[i]);
    square += second_moment_[i] * std::exp((n - 1) * log_phi_[i]);
  }
  return log_z * kStepOfLog - variance_ + variance_ * n * square * kStepOfLog;
}

}  // namespace attune
