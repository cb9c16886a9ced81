#pragma once

#include <cstdint>

#include "attune/core/attention_statistics.h"
#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/task/task.h"

namespace attune {

// Sums over evaluation batches; means weigh every scored token alike.
struct Evaluation {
  double loss_sum = 0;        // nats
  std::int64_t scored = 0;    // tokens
  std::int64_t correct = 0;   // tokens whose largest logit is the target
  std::int64_t examples = 0;  // with at least one scored token
  std::int64_t exact = 0;     // examples with every scored token correct
  AttentionStatistics attention;

  [[nodiscard]] double loss_nats() const {
    return scored ? loss_sum / static_cast<double>(scored) : 0;
  }
  [[nodiscard]] double accuracy() const {
    return scored ? static_cast<double>(correct) / static_cast<double>(scored) : 0;
  }
  [[nodiscard]] double exact_share() const {
    return examples ? static_cast<double>(exact) / static_cast<double>(examples) : 0;
  }
  Evaluation& operator+=(const Evaluation& other);
};

struct EvaluationOptions {
  std::int64_t batches = 20;
  std::int64_t batch_size = 64;  // examples
  bool statistics = true;        // attention entropies
  // Of every forward pass, from several threads at a time; null: none.
  Hooks* hooks = nullptr;
};

// Evaluates without dropout on batches 0, 1, ... of a split: the same ones every time. Batch i runs
// on thread i mod T; sums are taken in the order of batches.
[[nodiscard]] Evaluation evaluate(const Transformer& model, const BatchSource& source, Split split,
                                  const EvaluationOptions& options, ThreadPool& pool);

}  // namespace attune
