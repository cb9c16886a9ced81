#include "train/checkpoint_keeper.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "kernels/elementwise.h"

namespace attune {

namespace fs = std::filesystem;

bool CheckpointKeeper::is_due(std::int64_t step, bool last) const {
  if (step == saved_step_) return false;
  const std::int64_t interval =
      config_.save_interval > 0 ? config_.save_interval : config_.eval_interval;
  return last || (step > 0 && step % interval == 0) || is_kept_for_good(step);
}

bool CheckpointKeeper::is_kept_for_good(std::int64_t step) const {
  return std::ranges::find(config_.checkpoint_at, step) != config_.checkpoint_at.end();
}

// What is kept is settled before the new file appears: broken off in between, the run comes to this
// step again and does it again. It also frees the room that the new file takes.
void CheckpointKeeper::save(const CheckpointState& state, const ParameterStore& parameters,
                            const Optimizer& optimizer) {
  // Who looks for the first number that is not finite wants the last checkpoint before it.
  const auto is_finite = [](const Parameter& p) { return kernels::all_finite(p.value()); };
  if (config_.detect_anomaly && !std::ranges::all_of(parameters, is_finite)) return;
  if (config_.keep_last > 1) {
    keep_newest(state.step);
    drop_superfluous(state.step);
  }
  if (is_kept_for_good(state.step)) {
    // The one that stays first: broken off in between, the run comes to this step again.
    save_checkpoint(directory_.kept_checkpoint(state.step), state, parameters, optimizer);
    link_or_copy(directory_.kept_checkpoint(state.step), directory_.checkpoint());
  } else {
    save_checkpoint(directory_.checkpoint(), state, parameters, optimizer);
  }
  saved_step_ = state.step;
}

void CheckpointKeeper::save_best(const CheckpointState& state, const ParameterStore& parameters,
                                 const Optimizer& optimizer) const {
  if (!config_.keep_best) return;
  save_checkpoint(directory_.best_checkpoint(), state, parameters, optimizer);
}

// The newest so far, which one of `step` is about to replace.
void CheckpointKeeper::keep_newest(std::int64_t step) const {
  std::error_code ignored;
  if (saved_step_ < 0 || saved_step_ == step) return;
  if (!fs::exists(directory_.checkpoint(), ignored)) return;  // somebody took it away
  link_or_copy(directory_.checkpoint(), directory_.kept_checkpoint(saved_step_));
}

// Those of later steps are of a run that was taken back to an earlier checkpoint; it will come to
// them again.
void CheckpointKeeper::drop_superfluous(std::int64_t step) const {
  std::vector<std::int64_t> steps = directory_.kept_steps();
  std::erase_if(steps, [&](std::int64_t kept) { return kept < step && is_kept_for_good(kept); });
  const auto earlier = std::ranges::lower_bound(steps, step) - steps.begin();
  const auto first_kept = std::max<std::int64_t>(earlier - (config_.keep_last - 1), 0);
  for (std::int64_t i = 0; i < std::ssize(steps); ++i) {
    if (i >= first_kept && i < earlier) continue;
    const fs::path path = directory_.kept_checkpoint(steps[static_cast<std::size_t>(i)]);
    std::error_code error;
    fs::remove(path, error);
    if (error) throw IoError(fmt::format("remove: '{}': {}", path.string(), error.message()));
  }
}

}  // namespace attune
