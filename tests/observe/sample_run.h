#pragma once

#include <cstdint>

#include "attune/train/observer.h"

// Records as a run hands them to its observers.
namespace attune {

// One layer of two heads: entropies 0.25 and 0.75 of the largest; a row is valid if n > 1.
[[nodiscard]] inline AttentionStatistics two_heads() {
  AttentionStatistics statistics(1, 2);
  for (int head = 0; head < 2; ++head) {
    HeadStatistics& one = statistics.at(0, head);
    one.rows_valid = 4;
    one.rows_single = 2;
    one.rows_empty = 1;
    one.log_keys_sum = 8;
    one.entropy_sum = head == 0 ? 2 : 6;
    one.max_probability_sum = 3;
    one.score_row_variance_sum = 16;
    one.score_max_abs = 5;
  }
  return statistics;
}

// 10 tokens with 2.5 nats each, 4 of them right; 1 of 5 examples right as a whole.
[[nodiscard]] inline Evaluation sample_evaluation() {
  return {.loss_sum = 25,
          .scored = 10,
          .correct = 4,
          .examples = 5,
          .exact = 1,
          .attention = two_heads()};
}

[[nodiscard]] inline UpdateRecord sample_update() {
  UpdateRecord update;
  update.train_loss = 2.125;
  update.train_accuracy = 0.5;
  update.lr = 0.001;
  update.grad_norm = 1.75;
  update.clipped = true;
  update.step_ms = 12.5;
  update.tokens_per_second = 4096;
  return update;
}

// A step with everything.
[[nodiscard]] inline StepRecord sample_step(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.elapsed_seconds = 1.5;
  record.logged = true;
  record.train_evaluation = sample_evaluation();
  record.validation = sample_evaluation();
  record.update = sample_update();
  return record;
}

}  // namespace attune
