#include "attune/observe/study_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "attune/core/error.h"

namespace attune {
namespace {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The share of Student's distribution with n degrees of freedom in [-t, t], a finite sum for whole
// n (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4), theta = arctan(t / sqrt n).
double share_within(double t, std::int64_t n) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(n)));
  const double sine = std::sin(theta), cosine = std::cos(theta);
  double sum = 0;
  double term = n % 2 == 0 ? 1 : cosine;
  for (std::int64_t k = n % 2 == 0 ? 1 : 2; k < n; k += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(k) / static_cast<double>(k + 1);
  }
  return n % 2 == 0 ? sine * sum : 2 / std::numbers::pi * (theta + sine * sum);
}

}  // namespace

double student_t_95(std::int64_t degrees_of_freedom) {
  if (degrees_of_freedom < 1) {
    throw ValueError("student t: " + std::to_string(degrees_of_freedom) +
                     " degrees of freedom, expected 1 or more");
  }
  double low = 1.9, high = 13;  // the normal distribution's 1.96 and the 12.7 of one degree
  while (high - low > 1e-12 * high) {
    const double middle = (low + high) / 2;
    (share_within(middle, degrees_of_freedom) < 0.95 ? low : high) = middle;
  }
  return low;
}

Interval confidence_interval(std::span<const double> measurements) {
  const auto n = static_cast<std::int64_t>(measurements.size());
  if (n == 0) return {kNoFigure, kNoFigure, 0};
  if (!std::ranges::all_of(measurements, [](double value) { return std::isfinite(value); }))
    return {kNoFigure, kNoFigure, n};
  const double mean = mean_of(measurements);
  if (n == 1) return {mean, kNoFigure, 1};
  double squares = 0;
  for (const double value : measurements) squares += (value - mean) * (value - mean);
  const double variance = squares / static_cast<double>(n - 1);
  return {mean, student_t_95(n - 1) * std::sqrt(variance / static_cast<double>(n)), n};
}

double least_squares_slope(std::span<const double> x, std::span<const double> y) {
  if (x.empty() || x.size() != y.size()) return kNoFigure;
  const double mean_x = mean_of(x), mean_y = mean_of(y);
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return xx > 0 ? xy / xx : kNoFigure;
}

double log_log_slope(std::span<const double> x, std::span<const double> y) {
  std::vector<double> log_x, log_y;
  for (const double value : x) log_x.push_back(std::log(value));
  for (const double value : y) log_y.push_back(std::log(value));
  return least_squares_slope(log_x, log_y);
}

}  // namespace attune
