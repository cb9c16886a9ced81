#include "train/batch_ahead.h"

#include <algorithm>
#include <utility>

namespace attune {

BatchAhead::BatchAhead(const BatchSource& source, std::int64_t examples, std::int64_t micro_batches,
                       std::int64_t steps)
    : source_(source), examples_(examples), micro_batches_(micro_batches), steps_(steps) {}

Batch BatchAhead::part(std::int64_t step, std::int64_t micro_batch, std::int64_t begin,
                       std::int64_t end) const {
  return source_.train(step, micro_batch * examples_ + begin, end - begin,
                       micro_batches_ * examples_);
}

std::vector<Batch> BatchAhead::take(std::int64_t step) {
  const bool is_ready = step == step_ && drawn_ == micro_batches_ * examples_;
  step_ = -1;
  if (is_ready) return std::move(ahead_);
  std::vector<Batch> batches;
  for (std::int64_t m = 0; m < micro_batches_; ++m) {
    batches.push_back(part(step, m, 0, examples_));
  }
  return batches;
}

void BatchAhead::begin(std::int64_t step) {
  drawn_ = 0;
  step_ = step < steps_ ? step : -1;
  ahead_.assign(static_cast<std::size_t>(micro_batches_), Batch{});
  if (step_ < 0) return;
  // The extents of an example, without drawing one.
  const Batch empty = part(step, 0, 0, 0);
  const auto size = static_cast<std::size_t>(examples_ * empty.time);
  for (Batch& batch : ahead_) {
    batch = {examples_, empty.time, std::vector<std::int32_t>(size),
             std::vector<std::int32_t>(size)};
  }
}

void BatchAhead::draw(std::int64_t micro_batch, std::int64_t shard, std::int64_t shards) noexcept {
  if (step_ < 0) return;
  const std::int64_t begin = shard * examples_ / shards;
  const std::int64_t end = (shard + 1) * examples_ / shards;
  try {
    const Batch drawn = part(step_, micro_batch, begin, end);
    Batch& whole = ahead_[static_cast<std::size_t>(micro_batch)];
    std::ranges::copy(drawn.tokens, whole.tokens.begin() + begin * drawn.time);
    std::ranges::copy(drawn.targets, whole.targets.begin() + begin * drawn.time);
    drawn_ += end - begin;
  } catch (...) {
    // The step is now incomplete; take() draws it again and meets the exception where it belongs.
  }
}

}  // namespace attune
