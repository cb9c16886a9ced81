#include "attune/train/evaluation.h"

#include <vector>

namespace attune {
namespace {

Evaluation evaluate_batch(const Transformer& model, const Batch& batch,
                          const EvaluationOptions& options) {
  Evaluation result;
  Pass pass;
  pass.hooks = options.hooks;
  if (options.statistics) {
    result.attention = model.make_statistics();
    pass.statistics = &result.attention;
  }
  result.scored = batch.scored();
  if (result.scored == 0) return result;
  std::vector<std::uint8_t> is_correct(static_cast<std::size_t>(result.scored));
  const CrossEntropy loss =
      model.loss({batch.tokens, batch.examples, batch.time}, batch.targets, pass,
                 /*label_smoothing=*/0, is_correct);
  result.loss_sum = loss.nats;
  result.correct = loss.correct;

  std::size_t row = 0;  // among the scored ones
  for (std::int64_t example = 0; example < batch.examples; ++example) {
    bool any = false;
    bool all = true;
    for (std::int64_t t = 0; t < batch.time; ++t) {
      if (batch.targets[static_cast<std::size_t>(example * batch.time + t)] == kIgnore) continue;
      any = true;
      all &= is_correct[row++] != 0;
    }
    result.examples += any;
    result.exact += any && all;
  }
  return result;
}

}  // namespace

Evaluation& Evaluation::operator+=(const Evaluation& other) {
  loss_sum += other.loss_sum;
  scored += other.scored;
  correct += other.correct;
  examples += other.examples;
  exact += other.exact;
  attention += other.attention;
  return *this;
}

Evaluation evaluate(const Transformer& model, const BatchSource& source, Split split,
                    const EvaluationOptions& options, ThreadPool& pool) {
  std::vector<Evaluation> parts(static_cast<std::size_t>(options.batches));
  pool.run(static_cast<int>(options.batches), [&](int i) {
    const Batch batch = source.evaluation(split, i, options.batch_size);
    parts[static_cast<std::size_t>(i)] = evaluate_batch(model, batch, options);
  });
  Evaluation sum;
  for (const Evaluation& part : parts) sum += part;
  return sum;
}

}  // namespace attune
