#include "attune/observe/short_training.h"

#include <cmath>

#include "attune/train/trainer.h"

namespace attune {

ShortTraining::ShortTraining(const RunConfig& config, const Task& task)
    : config_(config),
      pool_(1),
      batches_(task, static_cast<std::uint64_t>(config.seed), config.train_size),
      model_(model_config(config, task), static_cast<std::uint64_t>(config.seed), config.dtype),
      optimizer_(make_optimizer(config.optimizer)),
      training_step_(model_, pool_, config.shards) {}

ShortTraining::Update ShortTraining::step(double learning_rate) {
  std::vector<Batch> batches;
  const std::int64_t whole = config_.batch_size * config_.grad_accum;
  for (std::int64_t i = 0; i < config_.grad_accum; ++i)
    batches.push_back(batches_.train(step_, i * config_.batch_size, config_.batch_size, whole));
  const StepResult result = training_step_.run(batches, step_options(config_, step_));
  ++step_;
  const Update update{result.loss_nats, result.gradient_norm};
  if (result.scored == 0 || !std::isfinite(update.loss_nats) ||
      !std::isfinite(update.gradient_norm))
    return update;
  const bool clips = config_.grad_clip > 0 && update.gradient_norm > config_.grad_clip;
  optimizer_->step(model_.parameters(), result.gradients,
                   clips ? config_.grad_clip / update.gradient_norm : 1, learning_rate, pool_);
  return update;
}

}  // namespace attune
