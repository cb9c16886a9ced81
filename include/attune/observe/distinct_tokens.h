#pragma once

#include <cstdint>
#include <memory>

#include "attune/task/task.h"

namespace attune {

// For models that are looked at and not trained: every example is `time` different tokens in random
// order, drawn from 0 .. vocabulary - 1, and a random target at each. Its vocabulary is raised to
// `time` where it is smaller. Nothing to learn, and both splits are alike.
[[nodiscard]] std::unique_ptr<Task> distinct_tokens(std::int64_t vocabulary, std::int64_t time);

}  // namespace attune
