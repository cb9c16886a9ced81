#pragma once

#include <cstdint>

#include "attune/task/task.h"

namespace attune {

// Entropy in nats of the targets in the evaluation batches of the training split: the loss there of
// a model that has learned how often each token is asked for, and nothing else.
[[nodiscard]] double unigram_entropy(const BatchSource& source, std::int64_t batches,
                                     std::int64_t batch_size);

}  // namespace attune
