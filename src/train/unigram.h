#pragma once

#include <cstdint>

#include "attune/task/task.h"

namespace attune {

// A training loss no further from the unigram entropy than this, in nats, has stalled there.
constexpr double kStalledWithin = 0.02;

// Entropy in nats of the targets in the evaluation batches of the training split: the loss there of
// a model that has learned how often each token is asked for, and nothing else.
[[nodiscard]] double unigram_entropy(const BatchSource& source, std::int64_t batches,
                                     std::int64_t batch_size);

}  // namespace attune
