#include "attune/train/run_config.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "model/option_domain.h"

namespace attune {
namespace {

// Steps and examples are 32-bit coordinates of the random streams.
constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostExamples = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostBatch = std::int64_t{1} << 20;
constexpr std::int64_t kMostLength = 65536;
constexpr std::int64_t kFollowsMaxIters = static_cast<std::int64_t>(kFollows);

void check_task_name(const std::string& name) {
  std::vector<std::string> names;
  for (const TaskInfo& task : list_tasks()) {
    if (task.name == name) return;
    names.push_back(task.name);
  }
  throw ConfigError(fmt::format("task '{}' is unknown{} (see attune list tasks)", name,
                                did_you_mean(name, names)));
}

void check_task(const TaskOptions& task) {
  check_task_name(task.name);
  require_between("--length", task.min_length, 1, kMostLength);
  require_between("--length", task.max_length, 1, kMostLength);
  if (task.min_length > task.max_length) {
    throw ConfigError(fmt::format("--length: {}..{} is empty; the first number is the smaller one",
                                  task.min_length, task.max_length));
  }
  require_between("--symbols", task.symbols, 1, kMostLength);
  require_between("--digits", task.digits, 1, kMostLength);
  require_between("--modulus", task.modulus, 2, kMostLength);
  static const std::array<std::string, 4> kOperations{"add", "sub", "mul", "div"};
  require_one_of("--op", task.op, kOperations);
  require_below_one("--val-fraction", task.val_fraction);
}

void check_amounts(const RunConfig& config) {
  require_between("--batch-size", config.batch_size, 1, kMostBatch);
  require_between("--grad-accum", config.grad_accum, 1, kMostBatch);
  if (config.batch_size * config.grad_accum > kMostExamples) {
    throw ConfigError(fmt::format("--batch-size {} times --grad-accum {} is more than {} examples",
                                  config.batch_size, config.grad_accum, kMostExamples));
  }
  require_between("--shards", config.shards, 1, 1024);
  require_between("--train-size", config.train_size, 0, kMostExamples);
  require_between("--max-iters", config.max_iters, 0, kMostSteps);
  require_below_one("--label-smoothing", config.label_smoothing);
  require_not_negative("--expert-balance", config.expert_balance);
  require_not_negative("--grad-clip", config.grad_clip);
  require_between("--seed", config.seed, 0, std::numeric_limits<std::int64_t>::max());
  require_between("--threads", config.threads, 0, 1024);
}

void check_cadence(const RunConfig& config) {
  require_between("--eval-interval", config.eval_interval, 1, kMostSteps);
  require_between("--eval-iters", config.eval_iters, 1, kMostSteps);
  require_between("--log-interval", config.log_interval, 1, kMostSteps);
  require_between("--attention-interval", config.attention_interval, 0, kMostSteps);
  require_between("--save-interval", config.save_interval, 0, kMostSteps);
  require_between("--keep-last", config.keep_last, 0, kMostSteps);
  for (const std::int64_t step : config.checkpoint_at)
    require_between("--checkpoint-at", step, 0, kMostSteps);
  require_between("--target-accuracy", config.target_accuracy, 0, 1);
  require_not_negative("--target-loss", config.target_loss);
  require_not_negative("--time-budget", config.time_budget_seconds);
}

void check_instruments(const RunConfig& config) {
  if (config.dot_ops && config.dot.empty()) throw ConfigError("--dot-ops: needs --dot FILE");
  if (config.profile_values && config.profile == ProfileTable::off)
    throw ConfigError("--profile-values: needs --profile");
}

ScheduleConfig resolved_schedule(ScheduleConfig schedule, std::int64_t max_iters) {
  if (schedule.decay_iters == kFollowsMaxIters) schedule.decay_iters = max_iters;
  const bool follows = schedule.min_lr == kFollows;
  if (follows) schedule.min_lr = 0;  // until --lr is known to be sound
  check(schedule);
  if (follows) schedule.min_lr = schedule.lr / 10;
  const bool decays = schedule.shape == "cosine" || schedule.shape == "linear";
  if (decays && schedule.min_lr > schedule.lr) {
    throw ConfigError(fmt::format("--min-lr {} is above --lr {}", format_float(schedule.min_lr),
                                  format_float(schedule.lr)));
  }
  return schedule;
}

}  // namespace

RunConfig RunConfig::defaults_for(const std::string& task) {
  check_task_name(task);
  RunConfig config;
  config.task.name = task;
  config.schedule.min_lr = kFollows;
  config.schedule.decay_iters = kFollowsMaxIters;
  config.model.attention_dropout = kFollows;
  if (task == "text") return config;  // the fields' own defaults are nanoGPT's small CPU recipe

  config.model.n_layer = 2;
  config.model.n_embd = 64;
  config.model.block_size = config.task.block_size = 0;
  config.model.positions = "sinusoidal";
  config.model.init = "xavier";  // solves these tasks in a third of gpt2's steps
  config.batch_size = 64;
  config.max_iters = 2000;
  config.schedule.lr = 2e-3;
  if (task == "addition") config.max_iters = 5000;
  if (task == "parity") {
    config.max_iters = 4000;
    config.task.max_length = 10;
    config.optimizer.weight_decay = 1;  // all there is to learn from are 1842 strings
  }
  if (task == "recall") config.task.max_length = 8;  // keys of their own, out of 10 symbols
  if (task == "induction") {                         // as published: Olsson et al. 2022 at toy size
    config.task.min_length = 12;
    config.task.max_length = 23;
    config.task.symbols = 32;
    config.model.tie_head = false;  // attention alone needs two tables to copy a token
  }
  if (task == "modular") {  // a table to be understood, not memorised: strong decay, large batches
    config.model.positions = "learned";
    config.batch_size = 256;
    config.max_iters = 4000;
    config.schedule.lr = 1e-3;
    config.optimizer.weight_decay = 1;
  }
  return config;
}

RunConfig RunConfig::resolved() const {
  check_task(task);
  check_amounts(*this);
  check_cadence(*this);
  check_instruments(*this);
  RunConfig config = *this;
  config.model = model.resolved();
  if (task.name == "text") {
    require_between("--block-size", model.block_size, 1, std::numeric_limits<std::int32_t>::max());
  }
  config.task.block_size = model.block_size;
  check(optimizer);
  config.schedule = resolved_schedule(schedule, max_iters);
  return config;
}

TransformerConfig RunConfig::model_over(const std::vector<std::string>& vocabulary) const {
  TransformerConfig over = model;
  over.vocabulary = static_cast<std::int64_t>(vocabulary.size());
  if (!has_mask_part(model.mask, "documents")) return over;
  const std::string separator = document_separator == "\\n" ? "\n" : document_separator;
  const auto found = std::ranges::find(vocabulary, separator);
  if (found == vocabulary.end()) {
    throw ConfigError(fmt::format("--document-separator: '{}' is not one of the {} tokens of {}",
                                  document_separator, vocabulary.size(), task.name));
  }
  over.document_separator = static_cast<std::int32_t>(found - vocabulary.begin());
  return over;
}

}  // namespace attune
