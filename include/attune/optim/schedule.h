#pragma once

#include <cstdint>
#include <string>

namespace attune {

// Learning rate as a function of the step; nothing to save. Update number t (from 0) uses rate(t).
//   constant: lr
//   linear:   lr + (min_lr - lr) u, u as below
//   cosine:   min_lr + (lr - min_lr) (1 + cos(pi u)) / 2, u = (t - warmup) / (decay_iters - warmup)
//   (Loshchilov & Hutter 2017) noam:     lr sqrt(max(warmup, 1)) min((t+1)^-1/2, (t+1)
//   warmup^-3/2): peaks at lr at the end of warm-up (Vaswani et al. 2017)
// Warm-up of the first three rises linearly: lr (t+1) / (warmup+1) for t < warmup, as in nanoGPT.
// From decay_iters on, linear and cosine stay at min_lr; constant and noam use neither. Where
// warm-up is as long as the decay or longer, min_lr follows it at once. Finite and not negative for
// every combination, also warmup >= decay_iters and decay_iters = 0.
struct ScheduleConfig {
  std::string shape = "cosine";     // cosine, linear, constant, noam
  double lr = 1e-3;                 // the largest rate
  double min_lr = 1e-4;             // the rate that linear and cosine end at
  std::int64_t warmup_iters = 100;  // steps of rising rate; 0: none
  std::int64_t decay_iters = 2000;  // step at which min_lr is reached
};
// Throws ConfigError naming the option for an unknown shape or a value outside its domain.
void check(const ScheduleConfig& schedule);
// The rate of update number `step`, from 0. Requires what check() checks.
[[nodiscard]] double learning_rate(const ScheduleConfig& schedule, std::int64_t step);

}  // namespace attune
