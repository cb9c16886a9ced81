#include "attune/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "model/option_domain.h"

namespace attune {
namespace {

// Vaswani et al. 2017, section 5.3, scaled so that the peak is lr:
//   sqrt(w) min(n^-1/2, n w^-3/2) = min(sqrt(w / n), n / w),  n = t + 1
// The right side has no factor above 1, so nothing overflows.
double noam(const ScheduleConfig& schedule, double step) {
  const double warmup = std::max(static_cast<double>(schedule.warmup_iters), 1.0);
  const double n = step + 1;
  return schedule.lr * std::min(std::sqrt(warmup / n), n / warmup);
}

}  // namespace

void check(const ScheduleConfig& schedule) {
  static const std::array<std::string, 4> kShapes{"cosine", "linear", "constant", "noam"};
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
  require_one_of("--lr-schedule", schedule.shape, kShapes);
  require_not_negative("--lr", schedule.lr);
  require_not_negative("--min-lr", schedule.min_lr);
  require_between("--warmup-iters", schedule.warmup_iters, 0, kMostSteps);
  require_between("--lr-decay-iters", schedule.decay_iters, 0, kMostSteps);
}

double learning_rate(const ScheduleConfig& schedule, std::int64_t step) {
  const auto t = static_cast<double>(step);
  if (schedule.shape == "noam") return noam(schedule, t);

  const auto warmup = static_cast<double>(schedule.warmup_iters);
  const auto decay_end = static_cast<double>(schedule.decay_iters);
  if (t < warmup) return schedule.lr * ((t + 1) / (warmup + 1));
  if (schedule.shape == "constant") return schedule.lr;
  // Here t >= warmup, so past this line decay_end > warmup and u lies in [0, 1).
  if (t >= decay_end) return schedule.min_lr;
  const double u = (t - warmup) / (decay_end - warmup);
  const double remaining =
      schedule.shape == "linear" ? 1 - u : (1 + std::cos(std::numbers::pi * u)) / 2;
  return schedule.min_lr + (schedule.lr - schedule.min_lr) * remaining;
}

}  // namespace attune
