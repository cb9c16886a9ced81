#include "attune/train/training_step.h"

#include <algorithm>
#include <cmath>

#include "attune/autodiff/observer_list.h"
#include "attune/core/error.h"
#include "attune/train/step_observer.h"
#include "kernels/elementwise.h"
#include "train/activation_tap.h"

namespace attune {

struct TrainingStep::Shard {
  Tape tape;
  ObserverList observers;  // of the tape
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::vector<Array> gradients;  // by parameter index, of the last micro-batch
  std::vector<char> reached;     // by parameter index, over all micro-batches
  AttentionStatistics attention;
  ActivationStatistics activations;
};

TrainingStep::TrainingStep(const Transformer& model, ThreadPool& pool, std::int64_t shards)
    : model_(model), pool_(pool) {
  if (shards < 1) throw ConfigError("--shards: " + std::to_string(shards) + " is below 1");
  for (std::int64_t s = 0; s < shards; ++s) shards_.push_back(std::make_unique<Shard>());
}

TrainingStep::~TrainingStep() = default;

StepResult TrainingStep::run(std::span<const Batch> micro_batches, const Options& options) {
  StepResult result;
  Extent step;
  for (const Batch& batch : micro_batches) {
    step.tokens += batch.examples * batch.time;
    step.scored += batch.scored();
  }
  result.scored = step.scored;
  if (step.scored == 0) return result;

  if (options.profile) options.profile->count_step();
  for (StepObserver* observer : options.observers)
    observer->begin(static_cast<std::int64_t>(micro_batches.size()), shards());
  const auto parameters = static_cast<std::size_t>(model_.parameters().count());
  for (const auto& shard : shards_) shard->reached.assign(parameters, 0);
  std::int64_t first_example = 0;
  double loss_sum = 0;
  for (const Batch& batch : micro_batches) {
    const std::int64_t micro_batch = &batch - micro_batches.data();
    run_shards(batch, micro_batch, first_example, step, options);
    for (const auto& shard : shards_) {
      loss_sum += shard->loss_sum;
      result.correct += shard->correct;
      if (options.statistics) result.attention += shard->attention;
      if (options.activations) result.activations += shard->activations;
    }
    add_shards(result, micro_batch == 0, options.profile);
    first_example += batch.examples;
  }
  name_unreached(result);
  result.loss_nats = loss_sum / static_cast<double>(result.scored);
  return result;
}

void TrainingStep::run_shards(const Batch& batch, std::int64_t micro_batch,
                              std::int64_t first_example, const Extent& step,
                              const Options& options) {
  RunProfile* const profile = options.profile;
  const RunProfile::Timer timer(profile, profile ? &profile->in_shards() : nullptr);
  pool_.run(static_cast<int>(shards()), [&](int s) {
    const auto index = static_cast<std::size_t>(s);
    RunProfile::Shard* const costs = profile ? &profile->shard(index) : nullptr;
    const RunProfile::Timer busy(profile, costs ? &costs->busy_seconds : nullptr);
    const std::int64_t begin = s * batch.examples / shards();
    const std::int64_t end = (s + 1) * batch.examples / shards();
    run_shard({micro_batch, s}, batch.slice(begin, end), first_example + begin, step, options,
              costs ? &costs->ops : nullptr);
    if (!options.meanwhile) return;
    const RunProfile::Timer drawing(profile, costs ? &costs->drawing_seconds : nullptr);
    options.meanwhile(micro_batch, s);
  });
}

void TrainingStep::run_shard(const StepPlace& place, const Batch& part, std::int64_t first_example,
                             const Extent& step, const Options& options, OpProfile* profile) {
  Shard& shard = *shards_[static_cast<std::size_t>(place.shard)];
  shard.loss_sum = 0;
  shard.correct = 0;
  shard.attention.clear();
  shard.activations.clear();
  shard.gradients.assign(static_cast<std::size_t>(model_.parameters().count()), Array());
  if (part.scored() == 0) return;

  shard.tape.clear();
  shard.observers.clear();
  shard.observers.add(profile, profile);
  for (StepObserver* observer : options.observers)
    shard.observers.add(observer->values(place), observer->gradients(place));
  shard.tape.set_value_observer(shard.observers.values());
  if (profile) profile->begin();
  if (options.statistics) shard.attention = model_.make_statistics();
  Pass pass;
  pass.tape = &shard.tape;
  pass.training = true;
  pass.random = options.random;
  pass.first_example = first_example;
  pass.statistics = options.statistics ? &shard.attention : nullptr;
  ActivationTap tap(shard.activations);
  if (options.activations) pass.hooks = &tap;
  pass.layer_loss_weight = options.expert_balance * static_cast<double>(part.examples * part.time) /
                           static_cast<double>(step.tokens);
  pass.checkpoint_activations = options.checkpoint_activations;
  const TokenBatch tokens{part.tokens, part.examples, part.time};
  const CrossEntropy loss = model_.loss(tokens, part.targets, pass, options.label_smoothing);
  shard.loss_sum = loss.nats;
  shard.correct = loss.correct;

  const Array seed = Array::scalar(1 / static_cast<double>(step.scored), model_.dtype());
  Gradients gradients = shard.tape.backward(loss.loss_sum, seed, shard.observers.gradients());
  if (profile) profile->end();
  for (Gradients::Entry& entry : gradients.entries()) {
    const auto index = static_cast<std::size_t>(entry.parameter->index());
    shard.reached[index] |= static_cast<char>(entry.reached);
    shard.gradients[index] = std::move(entry.gradient);
  }
}

// Adds what the shards found in one micro-batch to the step's gradients.
void TrainingStep::add_shards(StepResult& result, bool first, RunProfile* profile) {
  const RunProfile::Timer timer(profile, Phase::reducing);
  std::vector<std::span<Array>> parts;
  if (!first) parts.emplace_back(result.gradients);
  for (const auto& shard : shards_) parts.emplace_back(shard->gradients);
  result.gradient_norm = reduce_gradients(parts, pool_, &result.gradient_squares);
  if (first) result.gradients = std::move(shards_.front()->gradients);
}

// Of the whole step: a micro-batch without a scored token touches no parameter.
void TrainingStep::name_unreached(StepResult& result) const {
  for (const Parameter& parameter : model_.parameters()) {
    const auto index = static_cast<std::size_t>(parameter.index());
    if (parameter.is_frozen()) continue;
    if (result.gradients[index].is_null() && !parameter.options().optional) {
      throw InternalError("training: the forward pass did not touch the parameter " +
                          parameter.name());
    }
    const bool reached = std::any_of(shards_.begin(), shards_.end(),
                                     [&](const auto& shard) { return shard->reached[index]; });
    if (!reached) result.unreached.push_back(parameter.name());
  }
}

double reduce_gradients(std::span<const std::span<Array>> parts, ThreadPool& pool,
                        std::vector<double>* squares) {
  // Work is cut into pieces of fixed extent, so that neither values nor the order of sums depend on
  // the pool.
  struct Piece {
    std::size_t parameter;
    std::int64_t begin;
    std::int64_t end;
    double squares;
  };
  constexpr std::int64_t kPieceElements = 16384;
  std::vector<Piece> pieces;
  const std::span<Array> sum = parts.front();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    for (const std::span<Array>& part : parts) {
      if (!sum[i].is_null()) break;
      sum[i] = std::move(part[i]);  // the first worker that touched it
    }
    if (sum[i].is_null()) continue;
    if (sum[i].is_shared()) sum[i] = sum[i].clone();
    for (std::int64_t begin = 0; begin < sum[i].size(); begin += kPieceElements) {
      pieces.push_back({i, begin, std::min(begin + kPieceElements, sum[i].size()), 0});
    }
  }
  const auto work = [&](Piece& piece) {
    dispatch(sum[piece.parameter].dtype(), [&]<class T>() {
      T* out = sum[piece.parameter].mutable_data<T>().data() + piece.begin;
      const std::int64_t count = piece.end - piece.begin;
      for (const std::span<Array>& part : parts.subspan(1)) {
        const Array& theirs = part[piece.parameter];
        if (!theirs.is_null()) kernels::add_run(theirs.data<T>().data() + piece.begin, out, count);
      }
      piece.squares = kernels::sum_of_squares_run(out, count);
    });
  };
  // Neighbouring pieces go to one thread: thread k of T takes the k-th T-th of the list.
  const int threads = pool.threads();
  pool.run(threads, [&](int k) {
    const std::size_t begin =
        pieces.size() * static_cast<std::size_t>(k) / static_cast<std::size_t>(threads);
    const std::size_t end =
        pieces.size() * static_cast<std::size_t>(k + 1) / static_cast<std::size_t>(threads);
    for (std::size_t p = begin; p < end; ++p) work(pieces[p]);
  });
  double all = 0;
  if (squares) squares->assign(sum.size(), 0);
  for (const Piece& piece : pieces) {
    all += piece.squares;
    if (squares) (*squares)[piece.parameter] += piece.squares;
  }
  return std::sqrt(all);
}

}  // namespace attune
