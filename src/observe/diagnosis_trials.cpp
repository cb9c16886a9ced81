#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/diagnosis.h"
#include "attune/observe/text_table.h"
#include "attune/train/trainer.h"
#include "train/unigram.h"

// What a diagnosis tries out.
namespace attune {
namespace {

constexpr std::int64_t kMostEvaluationBatches = 5;
constexpr std::int64_t kMeanOver = 10;  // updates
constexpr std::int64_t kQuarters = 4;

// The beginning of the run, without files and without an early end.
RunConfig beginning(RunConfig config, std::int64_t steps) {
  config.max_iters = steps;
  config.eval_interval = steps + 1;
  config.eval_iters = std::min(config.eval_iters, kMostEvaluationBatches);
  config.log_interval = steps + 1;
  config.attention_interval = 0;
  config.log_grads = config.log_activations = config.tensorboard = false;
  config.target_accuracy = config.target_loss = config.time_budget_seconds = 0;
  config.skip_nonfinite = false;
  return config;
}

class Losses final : public TrainObserver {
 public:
  void on_step(const StepRecord& record) override {
    if (record.update) losses.push_back(record.update->train_loss);
  }
  std::vector<double> losses;
};

double mean_before(const std::vector<double>& losses, std::int64_t end) {
  const std::int64_t begin = std::max<std::int64_t>(end - kMeanOver, 0);
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += losses[static_cast<std::size_t>(i)];
  return sum / static_cast<double>(end - begin);
}

}  // namespace

std::vector<Trial> trials(const RunConfig& config, std::int64_t steps) {
  const RunConfig base = beginning(config, steps);
  std::vector<Trial> trials{{"as it was", "", base}};
  if (config.schedule.warmup_iters < kQuarters * steps) {
    Trial trial{"warm-up", fmt::format("--warmup-iters {}", kQuarters * steps), base};
    trial.config.schedule.warmup_iters = kQuarters * steps;
    trials.push_back(std::move(trial));
  }
  if (config.model.norm_position == NormPosition::post) {
    Trial trial{"pre-norm", "--norm-pos pre", base};
    trial.config.model.norm_position = NormPosition::pre;
    trials.push_back(std::move(trial));
  }
  Trial trial{"smaller rate", fmt::format("--lr {}", format_float(config.schedule.lr / 10)), base};
  trial.config.schedule.lr /= 10;
  trial.config.schedule.min_lr /= 10;
  trials.push_back(std::move(trial));
  return trials;
}

TrialResult try_out(const Trial& trial, const Task& task) {
  Trainer trainer(trial.config.resolved(), task);
  Losses losses;
  TrainObserver* const observers[] = {&losses};
  const RunSummary summary = trainer.run(nullptr, "", observers);
  TrialResult result;
  result.diverged = summary.status == RunStatus::diverged;
  if (result.diverged) return result;
  for (std::int64_t quarter = 1; quarter <= kQuarters; ++quarter) {
    const std::int64_t end = quarter * trial.config.max_iters / kQuarters;
    result.losses.push_back(mean_before(losses.losses, end));
  }
  ThreadPool pool(static_cast<int>(trainer.threads()));
  const BatchSource source(task, static_cast<std::uint64_t>(trial.config.seed),
                           trial.config.train_size);
  const EvaluationOptions options{trial.config.eval_iters, trial.config.batch_size, false};
  result.loss_nats = evaluate(trainer.model(), source, Split::train, options, pool).loss_nats();
  const std::vector<double> gradients = layer_gradients(trial.config, trainer.model(), task, pool);
  result.gradient_ratio = gradients.front() / gradients.back();
  return result;
}

std::string trial_table(const std::vector<Trial>& trials, const std::vector<TrialResult>& results) {
  std::vector<std::string> columns{"trial", "options"};
  const std::int64_t steps = trials.front().config.max_iters;
  for (std::int64_t quarter = 1; quarter <= kQuarters; ++quarter)
    columns.push_back(fmt::format("loss at {}", quarter * steps / kQuarters));
  columns.insert(columns.end(), {"evaluated", "gradient first/last"});
  TextTable table(columns);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    std::vector<std::string> cells{trials[i].name, trials[i].options};
    const TrialResult& result = results[i];
    if (result.diverged) {
      cells.resize(columns.size(), "-");
      cells.back() = "diverged";
    } else {
      for (const double loss : result.losses) cells.push_back(fmt::format("{:.3f}", loss));
      cells.push_back(fmt::format("{:.3f}", result.loss_nats));
      cells.push_back(fmt::format("{:.1e}", result.gradient_ratio));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string verdict(const Diagnosis& diagnosis, const std::vector<Trial>& trials,
                    const std::vector<TrialResult>& results) {
  const auto loss_of = [&](std::size_t i) {
    return results[i].diverged ? INFINITY : results[i].loss_nats;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < trials.size(); ++i) {
    if (loss_of(i) < loss_of(best)) best = i;
  }
  const std::int64_t steps = trials.front().config.max_iters;
  const std::string against = fmt::format(
      "as it was {}, single tokens {:.3f}",
      results[0].diverged ? std::string("diverged") : fmt::format("{:.3f}", results[0].loss_nats),
      diagnosis.unigram_entropy);
  const bool helps = best != 0 && loss_of(best) < loss_of(0) - kStalledWithin;
  if (!helps) {
    return fmt::format("none of them does better within {} steps ({}): more steps may tell", steps,
                       against);
  }
  return fmt::format("what helps most within {} steps: {} ({}), loss {:.3f}; {}", steps,
                     trials[best].name, trials[best].options, loss_of(best), against);
}

}  // namespace attune
