#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attune/autodiff/tape.h"
#include "attune/core/attention_statistics.h"
#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/task/task.h"
#include "attune/train/activation_statistics.h"
#include "attune/train/run_profile.h"

namespace attune {

// What one step over all its micro-batches gave: the gradient of the mean loss, a sum over scored
// tokens divided by their count in the whole step, never a mean of means.
struct StepResult {
  double loss_nats = 0;     // mean over scored tokens; 0 without any
  std::int64_t scored = 0;  // tokens
  std::int64_t correct = 0;
  double gradient_norm = 0;      // global, before clipping
  std::vector<Array> gradients;  // by parameter index; null for a parameter that may be left alone
  std::vector<std::string> unreached;  // parameters that the loss does not depend on: gradient zero
  AttentionStatistics attention;       // where asked for
  // Sum of squares of each gradient, by parameter index; 0 where there is none.
  std::vector<double> gradient_squares;
  ActivationStatistics activations;  // where asked for
};

class StepObserver;
struct StepPlace;

// Forward and backward of training batches, split into shards. Shard s of S owns examples
// floor(sB/S) to floor((s+1)B/S) of each micro-batch and runs on thread s mod T with a tape of its
// own; sums run over micro-batches, then shards, in that order. So the result depends on S, which
// the configuration fixes, and never on the number of threads.
class TrainingStep final {
 public:
  // Model and pool must outlive it. Throws ConfigError for shards < 1.
  TrainingStep(const Transformer& model, ThreadPool& pool, std::int64_t shards);
  ~TrainingStep();

  struct Options {
    Randomness random{};  // seed and step: dropout
    double label_smoothing = 0;
    // Factor on what balances the experts of a mixture, added to the mean loss that is minimised,
    // not to that which is reported. Of each shard's tokens by themselves, weighted with their
    // number.
    double expert_balance = 0;
    bool statistics = false;
    // Look at activations; blocks are then not computed again (checkpoint_activations).
    bool activations = false;
    bool checkpoint_activations = false;
    // Where the time goes to; null: it is not measured. Begun with this step's number of shards.
    RunProfile* profile = nullptr;
    // Who sees what the tapes record (train/step_observer.h), at no cost where there is nobody.
    std::span<StepObserver* const> observers{};
    // Called for each micro-batch and shard after the shard's own work, on its thread: what the
    // next step needs can be made ready meanwhile. Must not throw. Not called where nothing is
    // scored.
    std::function<void(std::int64_t micro_batch, std::int64_t shard)> meanwhile{};
  };
  // Without a scored token the gradients are empty: no step is to be taken.
  // Throws InternalError where a parameter that is not optional was touched by no shard.
  [[nodiscard]] StepResult run(std::span<const Batch> micro_batches, const Options& options);
  [[nodiscard]] std::int64_t shards() const { return static_cast<std::int64_t>(shards_.size()); }

 private:
  struct Shard;
  struct Extent {  // of the whole step
    std::int64_t tokens = 0;
    std::int64_t scored = 0;
  };
  void run_shard(const StepPlace& place, const Batch& part, std::int64_t first_example,
                 const Extent& step, const Options& options, OpProfile* profile);
  void run_shards(const Batch& batch, std::int64_t micro_batch, std::int64_t first_example,
                  const Extent& step, const Options& options);
  void add_shards(StepResult& result, bool first, RunProfile* profile);
  void name_unreached(StepResult& result) const;

  const Transformer& model_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

// Adds the gradients of several workers, parts[w][parameter] with null where a worker did not touch
// it, in the order of w: onto those of part 0, in place. Returns the sum's global norm; null for a
// parameter that no worker touched. The one place where workers meet: several threads today,
// several machines the same way. `squares`, where given: the sum of squares of each parameter's
// gradient, 0 for a null one.
double reduce_gradients(std::span<const std::span<Array>> parts, ThreadPool& pool,
                        std::vector<double>* squares = nullptr);

}  // namespace attune
