#include "attune/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/train/step_observer.h"
#include "kernels/gemm.h"
#include "train/batch_ahead.h"
#include "train/checkpoint_keeper.h"
#include "train/question.h"
#include "train/unigram.h"
#include "train/update.h"

namespace attune {
namespace {

constexpr double kStalledShare = 0.2;  // of the run

std::string first_example(const BatchSource& batches, const Task& task) {
  const Question question = question_of(batches.evaluation(Split::train, 0, 1), 0);
  return task.decode(question.prompt) + " -> " + task.decode(question.answer);
}

}  // namespace

TransformerConfig model_config(const RunConfig& config, const Task& task) {
  TransformerConfig model = config.model_over(task.vocabulary_texts());
  if (model.block_size == 0) model.block_size = task.time();
  if (model.block_size < task.time()) {
    throw ConfigError(
        fmt::format("--block-size: {} is shorter than the {} tokens of an example of {}",
                    model.block_size, task.time(), task.name()));
  }
  return model.resolved();
}

TrainingStep::Options step_options(const RunConfig& config, std::int64_t step) {
  TrainingStep::Options options;
  options.random = {static_cast<std::uint64_t>(config.seed), static_cast<std::uint32_t>(step)};
  options.label_smoothing = config.label_smoothing;
  options.expert_balance = config.expert_balance;
  options.checkpoint_activations = config.checkpoint_activations;
  return options;
}

Trainer::Trainer(const RunConfig& config, const Task& task, std::int64_t most_parameters)
    : config_(config),
      task_(task),
      pool_(config.threads > 0 ? static_cast<int>(config.threads) : ThreadPool::available_cores()),
      batches_(task, static_cast<std::uint64_t>(config.seed), config.train_size),
      model_(model_config(config, task), static_cast<std::uint64_t>(config.seed), config.dtype,
             most_parameters),
      optimizer_(make_optimizer(config.optimizer)),
      training_step_(model_, pool_, config.shards) {
  progress_.best_val_loss = std::numeric_limits<double>::infinity();
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const CheckpointState& state = checkpoint.state();
  const double skipped = checkpoint.counter("skipped_steps", 0, 0);
  const double stalled_since = checkpoint.counter("stalled_since", -1, -1);
  const double elapsed_seconds = checkpoint.counter("elapsed_seconds", 0, 0);
  checkpoint.restore(model_.parameters(), *optimizer_);
  progress_.step = progress_.saved_step = state.step;
  progress_.skipped = static_cast<std::int64_t>(skipped);
  progress_.stalled_since = static_cast<std::int64_t>(stalled_since);
  progress_.elapsed_before = elapsed_seconds;
  progress_.best_val_loss = state.best_val_loss;
}

// One call of Trainer::run.
class Trainer::Loop final {
 public:
  Loop(Trainer& trainer, const RunDirectory* directory, const std::string& config_toml,
       std::span<TrainObserver* const> observers)
      : trainer_(trainer),
        config_(trainer.config_),
        progress_(trainer.progress_),
        directory_(directory),
        config_toml_(config_toml),
        observers_(observers),
        first_step_(progress_.step),
        batches_(trainer.batches_, config_.batch_size, config_.grad_accum, config_.max_iters),
        updater_(config_, trainer.model_, *trainer.optimizer_, trainer.pool_) {
    if (directory != nullptr) checkpoints_.emplace(config_, *directory, progress_.saved_step);
  }

  RunSummary run(const std::function<bool()>& interrupted) {
    announce();
    while (true) {
      const std::int64_t step = progress_.step;
      if (interrupted && interrupted()) {
        save();
        return finish(RunStatus::interrupted);
      }
      const bool over_budget =
          config_.time_budget_seconds > 0 && elapsed() >= config_.time_budget_seconds;
      const bool last = step >= config_.max_iters || over_budget;
      if (is_checkpoint_due(last)) save();

      StepRecord record;
      record.step = step;
      if (last || step % config_.eval_interval == 0) evaluate(record);
      const bool on_target = record.validation && meets_target(*record.validation);
      if (!last && !on_target) update(record);
      record.logged = last || on_target || !failure_.empty() || is_line_due(record);
      record.elapsed_seconds = elapsed();
      for (TrainObserver* observer : observers_) observer->on_step(record);
      if (!failure_.empty()) return finish(RunStatus::diverged);
      if (on_target) return finish(RunStatus::target);
      if (last) return finish(step < config_.max_iters ? RunStatus::budget : end_status());
      ++progress_.step;
    }
  }

 private:
  void announce() {
    const RunStart start{config_,
                         directory_ ? directory_->path().string() : "",
                         first_example(trainer_.batches_, trainer_.task_),
                         trainer_.model_.parameters().elements(),
                         first_step_,
                         trainer_.threads(),
                         trainer_.task_.chance(),
                         trainer_.task_.has_answers(),
                         kernels::blas_kernel()};
    for (TrainObserver* observer : observers_) observer->on_start(start);
  }

  void note(const std::string& line) {
    for (TrainObserver* observer : observers_) observer->on_note(line);
  }

  [[nodiscard]] double elapsed() const {
    const std::chrono::duration<double> here = std::chrono::steady_clock::now() - begin_;
    return progress_.elapsed_before + here.count();
  }

  [[nodiscard]] bool is_checkpoint_due(bool last) const {
    return checkpoints_ && checkpoints_->is_due(progress_.step, last);
  }

  // Whether the logs have a line of this step however the run goes on.
  [[nodiscard]] bool is_line_due(const StepRecord& record) const {
    return record.validation || record.step % config_.log_interval == 0;
  }

  [[nodiscard]] CheckpointState state() const {
    CheckpointState state;
    state.step = progress_.step;
    state.optimizer_updates = trainer_.optimizer_->updates();
    state.config_toml = config_toml_;
    state.vocabulary = trainer_.task_.vocabulary_texts();
    state.blas_kernel = kernels::blas_kernel();
    state.best_val_loss = progress_.best_val_loss;
    state.counters = {{"skipped_steps", static_cast<double>(progress_.skipped)},
                      {"stalled_since", static_cast<double>(progress_.stalled_since)},
                      {"elapsed_seconds", elapsed()}};
    return state;
  }

  // The logs first: a checkpoint speaks of lines that are there.
  void save() {
    if (!checkpoints_) return;
    const RunProfile::Timer timer(trainer_.profile_, Phase::checkpoint);
    for (TrainObserver* observer : observers_) observer->flush();
    checkpoints_->save(state(), trainer_.model_.parameters(), *trainer_.optimizer_);
  }

  void save_best() {
    if (!checkpoints_) return;
    const RunProfile::Timer timer(trainer_.profile_, Phase::checkpoint);
    checkpoints_->save_best(state(), trainer_.model_.parameters(), *trainer_.optimizer_);
  }

  void evaluate(StepRecord& record) {
    const double best = progress_.best_val_loss;
    measure(record);
    for (TrainObserver* observer : observers_)
      observer->on_evaluation(record.step, trainer_.model_);
    if (progress_.best_val_loss < best) save_best();
  }

  void measure(StepRecord& record) {
    const RunProfile::Timer timer(trainer_.profile_, Phase::evaluation);
    const EvaluationOptions options{config_.eval_iters, config_.batch_size, true};
    record.train_evaluation =
        attune::evaluate(trainer_.model_, trainer_.batches_, Split::train, options, trainer_.pool_);
    record.validation = attune::evaluate(trainer_.model_, trainer_.batches_, Split::validation,
                                         options, trainer_.pool_);
    validation_ = record.validation;
    progress_.best_val_loss = std::min(progress_.best_val_loss, record.validation->loss_nats());

    if (!unigram_entropy_) {
      unigram_entropy_ = unigram_entropy(trainer_.batches_, config_.eval_iters, config_.batch_size);
    }
    const double distance = std::abs(record.train_evaluation->loss_nats() - *unigram_entropy_);
    if (!(distance <= kStalledWithin)) {  // a loss that is not finite is no stalled one
      progress_.stalled_since = -1;
    } else if (progress_.stalled_since < 0) {
      progress_.stalled_since = record.step;
    }
  }

  [[nodiscard]] bool meets_target(const Evaluation& validation) const {
    const double accuracy =
        trainer_.task_.has_answers() ? validation.exact_share() : validation.accuracy();
    return (config_.target_accuracy > 0 && accuracy >= config_.target_accuracy) ||
           (config_.target_loss > 0 && validation.loss_nats() <= config_.target_loss);
  }

  [[nodiscard]] RunStatus end_status() const {
    const auto stalled_for = static_cast<double>(progress_.step - progress_.stalled_since);
    const bool stalled = progress_.stalled_since >= 0 && progress_.step > 0 &&
                         stalled_for >= kStalledShare * static_cast<double>(config_.max_iters);
    return stalled ? RunStatus::stalled : RunStatus::done;
  }

  void update(StepRecord& record) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Batch> batches = take_batches(record.step);
    record.attention_logged =
        config_.attention_interval > 0 && record.step % config_.attention_interval == 0;
    TrainingStep::Options options = step_options(config_, record.step);
    options.statistics = record.attention_logged || is_line_due(record);
    options.activations = config_.log_activations && is_line_due(record);
    options.profile = trainer_.profile_;
    options.observers = trainer_.step_observers_;
    options.meanwhile = [this](std::int64_t micro_batch, std::int64_t shard) {
      batches_.draw(micro_batch, shard, trainer_.training_step_.shards());
    };
    StepResult result = trainer_.training_step_.run(batches, options);
    if (record.step == first_step_) name_unreached(result);

    record.update = apply(record, result, verdict(record.step, batches, result));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    record.update->step_ms = took.count() * 1e3;
    std::int64_t tokens = 0;
    for (const Batch& batch : batches) tokens += batch.examples * batch.time;
    record.update->tokens_per_second = static_cast<double>(tokens) / took.count();
    if (options.statistics) {
      attention_ = std::move(result.attention);
      record.attention = &attention_;
    }
    if (options.activations) {
      activations_ = std::move(result.activations);
      record.activations = &activations_;
    }
  }

  // The step's micro-batches, and room for those of the next step.
  std::vector<Batch> take_batches(std::int64_t step) {
    const RunProfile::Timer timer(trainer_.profile_, Phase::drawing);
    std::vector<Batch> batches = batches_.take(step);
    batches_.begin(step + 1);
    return batches;
  }

  // Why an observer of the step ends the run; empty: none does.
  [[nodiscard]] std::string verdict(std::int64_t step, std::span<const Batch> batches,
                                    const StepResult& result) const {
    for (StepObserver* observer : trainer_.step_observers_) {
      if (result.scored == 0) break;
      std::string why = observer->verdict({step, batches, trainer_.model_, result});
      if (!why.empty()) return why;
    }
    return "";
  }

  // Makes the update, or tells why not.
  UpdateRecord apply(const StepRecord& record, const StepResult& result,
                     const std::string& verdict) {
    Update update = updater_(record.step, result, verdict, config_.log_grads && is_line_due(record),
                             trainer_.profile_);
    if (result.scored > 0) train_loss_ = result.loss_nats;
    if (update.diverged) {
      failure_ = update.reason;
    } else if (update.record.skipped) {
      ++progress_.skipped;
      note(update.reason);
    }
    return std::move(update.record);
  }

  void name_unreached(const StepResult& result) {
    for (const std::string& name : result.unreached) {
      note("the loss does not depend on the parameter " + name + ": its gradient is zero");
    }
  }

  RunSummary finish(RunStatus status) {
    RunSummary summary;
    summary.status = status;
    summary.steps = progress_.step;
    summary.train_loss = train_loss_;
    summary.validation = validation_;
    summary.best_val_loss = progress_.best_val_loss;
    summary.elapsed_seconds = elapsed();
    summary.parameters = trainer_.model_.parameters().elements();
    summary.parameter_hash = trainer_.model_.parameters().hash();
    summary.threads = trainer_.threads();
    summary.blas = kernels::blas_configuration();
    summary.message = failure_;
    if (status == RunStatus::target && is_checkpoint_due(true)) save();
    for (TrainObserver* observer : observers_) observer->flush();
    for (TrainObserver* observer : observers_) observer->on_end(summary);
    return summary;
  }

  Trainer& trainer_;
  const RunConfig& config_;
  Progress& progress_;
  const RunDirectory* directory_;
  const std::string& config_toml_;
  std::span<TrainObserver* const> observers_;
  std::int64_t first_step_;
  BatchAhead batches_;
  Updater updater_;
  std::optional<CheckpointKeeper> checkpoints_;  // nothing without a directory
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<double> train_loss_;
  std::optional<Evaluation> validation_;
  std::optional<double> unigram_entropy_;
  AttentionStatistics attention_;
  ActivationStatistics activations_;
  std::string failure_;  // why the run diverged
};

RunSummary Trainer::run(const RunDirectory* directory, const std::string& config_toml,
                        std::span<TrainObserver* const> observers,
                        const std::function<bool()>& interrupted) {
  if (profile_) profile_->begin(pool_.threads(), training_step_.shards());
  const RunSummary summary = Loop(*this, directory, config_toml, observers).run(interrupted);
  if (profile_) profile_->end();
  return summary;
}

std::string_view to_string(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return "done";
    case RunStatus::target:
      return "target";
    case RunStatus::budget:
      return "budget";
    case RunStatus::interrupted:
      return "interrupted";
    case RunStatus::diverged:
      return "diverged";
    case RunStatus::stalled:
      return "stalled";
  }
  return "";
}

}  // namespace attune
