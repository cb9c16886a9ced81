#pragma once

#include <cstdint>
#include <vector>

#include "attune/task/task.h"
#include "attune/train/run_config.h"

namespace attune {

// A learning-rate range test (Smith 2017): one short training whose rate grows by the same factor
// each step from `low` to `high`.
struct RateRange {
  double low = 1e-5;
  double high = 1;
  std::int64_t steps = 150;
};
struct RangeTest {
  std::vector<double> rates;   // of each update
  std::vector<double> losses;  // of its batch before the update; NaN once it has diverged
  std::vector<double>
      smoothed;         // mean of the losses around it, with weights that fall off; NaN too
  double steepest = 0;  // rate at which the smoothed loss falls fastest by ln rate
  double lowest = 0;    // rate at which the smoothed loss is smallest
  // Rate from which on it is above its first value by a tenth; NaN: up to `high` it is not.
  double diverges = 0;
  double suggested = 0;  // the smaller of `steepest` and a third of `lowest`
};
[[nodiscard]] RangeTest range_test(const RunConfig& config, const Task& task,
                                   const RateRange& range);
// What a curve of losses says; `rates` ascending, as many losses.
[[nodiscard]] RangeTest read_range_test(std::vector<double> rates, std::vector<double> losses);

}  // namespace attune
