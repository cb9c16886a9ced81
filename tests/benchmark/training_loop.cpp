#include "training_loop.h"

#include <cmath>
#include <vector>

#include "attune/array/buffer_pool.h"
#include "attune/core/error.h"
#include "attune/train/run_config.h"

namespace attune::benchmarks {
namespace {

constexpr std::int64_t kBatches = 16;  // that the steps take turns with
constexpr std::uint64_t kSeed = 1;
constexpr double kLearningRate = 1e-3;

}  // namespace

TrainingLoop::TrainingLoop(const Configuration& configuration, ThreadPool& pool)
    : configuration_(configuration),
      pool_(pool),
      examples_(random_examples(configuration, kBatches * configuration.batch)),
      model_(configuration.model, kSeed),
      optimizer_(make_optimizer(OptimizerConfig{})),
      training_step_(model_, pool, RunConfig{}.shards) {}

void TrainingLoop::step(bool statistics, RunProfile* profile) {
  const std::int64_t begin = steps_ % kBatches * configuration_.batch;
  std::vector<Batch> batches;
  batches.push_back(examples_.slice(begin, begin + configuration_.batch));
  const TrainingStep::Options options{.random = {kSeed, static_cast<std::uint32_t>(steps_)},
                                      .label_smoothing = 0,
                                      .statistics = statistics,
                                      .profile = profile};
  const StepResult result = training_step_.run(batches, options);
  if (!std::isfinite(result.loss_nats) || !std::isfinite(result.gradient_norm)) {
    throw Error("benchmark: the loss of " + configuration_.name + " is not finite");
  }
  const double limit = RunConfig{}.grad_clip;
  const double scale = result.gradient_norm > limit ? limit / result.gradient_norm : 1;
  const RunProfile::Timer timer(profile, Phase::optimizer);
  optimizer_->step(model_.parameters(), result.gradients, scale, kLearningRate, pool_);
  ++steps_;
}

MemoryUse measure_memory(const Configuration& configuration, ThreadPool& pool) {
  constexpr int kSteps = 4;
  buffer_pool::trim();  // blocks that earlier measurements left would hide allocations
  buffer_pool::reset_peak();
  const std::int64_t live_before = buffer_pool::statistics().live_bytes;
  TrainingLoop loop(configuration, pool);
  loop.step(false);
  loop.step(false);
  const std::int64_t allocations_before = buffer_pool::statistics().system_allocations;
  for (int i = 0; i < kSteps; ++i) loop.step(false);
  const buffer_pool::Statistics after = buffer_pool::statistics();
  return {static_cast<double>(after.system_allocations - allocations_before) / kSteps,
          after.peak_bytes - live_before};
}

}  // namespace attune::benchmarks
