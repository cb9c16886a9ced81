#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace attune {

// A figure that there is not.
inline constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

// The mean of independent measurements and the half-width of its 95 % confidence interval by
// Student's t: t(0.975, n - 1) s / sqrt(n). A single measurement has no interval: NaN. One that is
// not finite makes both NaN.
struct Interval {
  double mean = 0;
  double half_width = 0;
  std::int64_t count = 0;
};
[[nodiscard]] Interval confidence_interval(std::span<const double> measurements);

// The t that 95 % of Student's distribution lie within, [-t, t]. Throws ValueError below one degree
// of freedom.
[[nodiscard]] double student_t_95(std::int64_t degrees_of_freedom);

// Slope of the least-squares line through (x, y). NaN for fewer than two different x.
[[nodiscard]] double least_squares_slope(std::span<const double> x, std::span<const double> y);
// The same through (ln x, ln y): the exponent of a power law.
[[nodiscard]] double log_log_slope(std::span<const double> x, std::span<const double> y);

}  // namespace attune
