#pragma once

#include <cstdint>
#include <vector>

#include "attune/task/task.h"

namespace attune {

// An example as a model meets it when it generates: what it is given, and what it should say then.
struct Question {
  std::vector<std::int32_t> prompt;  // up to the first scored position, that one included
  std::vector<std::int32_t> answer;  // the targets of the scored positions
};
// Of example `index` of the batch. A text is scored everywhere: its prompt is one token.
[[nodiscard]] Question question_of(const Batch& batch, std::int64_t index);

}  // namespace attune
