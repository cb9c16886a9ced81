#include "attune/observe/study_lr.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/observe/short_training.h"
#include "attune/observe/study_statistics.h"

namespace attune {
namespace {

constexpr double kDivergence = 1.1;  // times the first loss
// Updates on each side that smooth a loss and give its slope.
constexpr std::int64_t kReach = 5;

// Means with weights 1, 2, .., 2, 1 around each place, of what is there and finite.
std::vector<double> smoothed(const std::vector<double>& losses) {
  const auto count = static_cast<std::int64_t>(losses.size());
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0, weights = 0;
    for (std::int64_t d = -kReach; d <= kReach; ++d) {
      if (i + d < 0 || i + d >= count) continue;
      const double loss = losses[static_cast<std::size_t>(i + d)];
      const auto weight = static_cast<double>(kReach + 1 - std::abs(d));
      if (!std::isfinite(loss)) continue;
      sum += weight * loss;
      weights += weight;
    }
    const bool is_there = std::isfinite(losses[static_cast<std::size_t>(i)]) && weights > 0;
    result.push_back(is_there ? sum / weights : kNoFigure);
  }
  return result;
}

// Slope of the smoothed loss by ln rate around each place.
double slope_at(const RangeTest& test, std::size_t i) {
  const std::size_t begin = i < kReach ? 0 : i - kReach;
  const std::size_t end = std::min(i + kReach + 1, test.rates.size());
  std::vector<double> x, y;
  for (std::size_t k = begin; k < end; ++k) {
    if (!std::isfinite(test.smoothed[k])) continue;
    x.push_back(std::log(test.rates[k]));
    y.push_back(test.smoothed[k]);
  }
  return least_squares_slope(x, y);
}

}  // namespace

RangeTest read_range_test(std::vector<double> rates, std::vector<double> losses) {
  RangeTest test;
  test.rates = std::move(rates);
  test.losses = std::move(losses);
  test.smoothed = smoothed(test.losses);
  test.steepest = test.lowest = test.diverges = test.suggested = kNoFigure;
  if (test.smoothed.empty() || !std::isfinite(test.smoothed.front())) return test;

  std::size_t lowest = 0;
  for (std::size_t i = 0; i < test.smoothed.size(); ++i) {
    if (test.smoothed[i] < test.smoothed[lowest]) lowest = i;
  }
  test.lowest = test.rates[lowest];
  double steepest = 0;
  for (std::size_t i = 0; i <= lowest; ++i) {
    const double slope = slope_at(test, i);
    if (!(slope < steepest)) continue;
    steepest = slope;
    test.steepest = test.rates[i];
  }
  for (std::size_t i = lowest; i < test.smoothed.size(); ++i) {
    if (test.smoothed[i] <= kDivergence * test.smoothed.front()) continue;
    test.diverges = test.rates[i];
    break;
  }
  test.suggested = std::min(test.steepest, test.lowest / 3);
  return test;
}

RangeTest range_test(const RunConfig& config, const Task& task, const RateRange& range) {
  if (!(range.low > 0 && range.low < range.high && std::isfinite(range.high)) || range.steps < 2) {
    throw ConfigError(fmt::format("range test: {} steps from {} to {}, expected 2 or more upwards",
                                  range.steps, range.low, range.high));
  }
  ShortTraining training(config, task);
  std::vector<double> rates, losses;
  bool diverged = false;
  for (std::int64_t i = 0; i < range.steps; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(range.steps - 1);
    rates.push_back(range.low * std::pow(range.high / range.low, share));
    if (!diverged) {
      const double loss = training.step(rates.back()).loss_nats;
      losses.push_back(loss);
      // Beyond this nothing is learned any more, so nothing about rates.
      diverged = !std::isfinite(loss) || loss > 4 * losses.front();
    } else {
      losses.push_back(kNoFigure);
    }
  }
  return read_range_test(std::move(rates), std::move(losses));
}

}  // namespace attune
