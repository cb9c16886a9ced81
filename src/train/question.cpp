#include "train/question.h"

namespace attune {

Question question_of(const Batch& batch, std::int64_t index) {
  Question question;
  for (std::int64_t t = 0; t < batch.time; ++t) {
    const auto i = static_cast<std::size_t>(index * batch.time + t);
    if (question.answer.empty()) question.prompt.push_back(batch.tokens[i]);
    if (batch.targets[i] != kIgnore) question.answer.push_back(batch.targets[i]);
  }
  return question;
}

}  // namespace attune
