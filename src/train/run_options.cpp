#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "train/option_builders.h"

// The options of training, optimizer, schedule, logging, stopping and the run itself.
namespace attune::option {
namespace {

constexpr const char* kTraining = "Training";
constexpr const char* kOptimizer = "Optimizer";
constexpr const char* kSchedule = "Schedule";
constexpr const char* kLogging = "Logging";
constexpr const char* kStopping = "Stopping";
constexpr const char* kRun = "Run";

void add_training_options(std::vector<Option>& options) {
  options.push_back(changeable_on_resume(integer(
      {"max-iters",
       {"max-steps", "steps"},
       kTraining,
       "Length of training in steps: the updates of the weights."},
      [](auto& config) -> auto& { return config.max_iters; })));
  options.push_back(integer(
      {"batch-size",
       {},
       kTraining,
       "Examples in a micro-batch. More give a steadier gradient and take "
       "time in proportion."},
      [](auto& config) -> auto& { return config.batch_size; }));
  options.push_back(integer(
      {"grad-accum",
       {"gradient-accumulation-steps"},
       kTraining,
       "Micro-batches in a step: a batch this many times larger in the memory "
       "of one."},
      [](auto& config) -> auto& { return config.grad_accum; }));
  options.push_back(integer(
      {"shards",
       {},
       kTraining,
       "Parts that a batch is split into, at most this many threads work. "
       "Changes rounding, unlike --threads."},
      [](auto& config) -> auto& { return config.shards; }));
  options.push_back(number(
      {"label-smoothing",
       {},
       kTraining,
       "Probability given to all tokens evenly in the training target, 0 to "
       "below 1. More keeps the model less certain."},
      [](auto& config) -> auto& { return config.label_smoothing; }));
  options.push_back(number(
      {"expert-balance",
       {},
       kTraining,
       "Factor on the loss that spreads tokens evenly over the experts of a mixture; 0: none, few "
       "experts may then take all."},
      [](auto& config) -> auto& { return config.expert_balance; }));
  options.push_back(number(
      {"grad-clip",
       {},
       kTraining,
       "Largest norm of the whole gradient, longer ones are scaled down; 0: "
       "off. Lower is safer and slower."},
      [](auto& config) -> auto& { return config.grad_clip; }));
  options.push_back(boolean(
      {"skip-nonfinite",
       {},
       kTraining,
       "Skip and count a step whose loss or gradient is not finite, instead "
       "of ending the run as diverged."},
      [](auto& config) -> auto& { return config.skip_nonfinite; }));
  options.push_back(enumeration<DType>(
      {"dtype",
       {},
       kTraining,
       "Precision of all arithmetic; float64 takes twice the time or more."},
      {"float32", "float64"}, [](auto& config) -> auto& { return config.dtype; }));
  options.push_back(integer(
      {"seed",
       {},
       kTraining,
       "Decides every random number: initial weights, batches, dropout. 0 to "
       "2^63-1."},
      [](auto& config) -> auto& { return config.seed; }));
}

void add_optimizer_options(std::vector<Option>& options) {
  options.push_back(choice(
      {"optimizer",
       {},
       kOptimizer,
       "adamw: Adam with decoupled weight decay; adam: decay added to the "
       "gradient; sgd: momentum, wants a larger --lr."},
      {"adamw", "adam", "sgd"}, [](auto& config) -> auto& { return config.optimizer.kind; }));
  options.push_back(number(
      {"beta1",
       {},
       kOptimizer,
       "Memory of the mean gradient (adam, adamw), 0 to below 1: about "
       "1/(1-beta1) steps."},
      [](auto& config) -> auto& { return config.optimizer.beta1; }));
  options.push_back(number(
      {"beta2",
       {},
       kOptimizer,
       "Memory of the mean squared gradient (adam, adamw), 0 to below 1. Small "
       "batches want it nearer to 1."},
      [](auto& config) -> auto& { return config.optimizer.beta2; }));
  options.push_back(number(
      {"eps",
       {},
       kOptimizer,
       "Added to the root of the mean square (adam, adamw): gradients well "
       "below it move little."},
      [](auto& config) -> auto& { return config.optimizer.eps; }));
  options.push_back(number(
      {"momentum", {}, kOptimizer, "Memory of past gradients (sgd), 0 to below 1."},
      [](auto& config) -> auto& { return config.optimizer.momentum; }));
  options.push_back(number(
      {"weight-decay",
       {},
       kOptimizer,
       "Pull of weights and embeddings towards 0, per unit of learning rate; "
       "biases and gains have none."},
      [](auto& config) -> auto& { return config.optimizer.weight_decay; }));
}

// nanoGPT's switch: false is a constant rate.
Option decay_lr() {
  Option option = described({"decay-lr",
                             {},
                             kSchedule,
                             "nanoGPT's switch: false is --lr-schedule constant, true keeps a "
                             "schedule that decays."},
                            Option::Kind::boolean);
  option.set = [](RunConfig& config, std::string_view text) {
    std::string& shape = config.schedule.shape;
    if (!boolean_of("decay-lr", text)) {
      shape = "constant";
    } else if (shape == "constant") {
      shape = "cosine";
    }
  };
  option.get = [](const RunConfig& config) { return text_of(config.schedule.shape != "constant"); };
  return not_stored(std::move(option));
}

void add_schedule_options(std::vector<Option>& options) {
  options.push_back(number(
      {"lr",
       {"learning-rate"},
       kSchedule,
       "Learning rate at its peak. Too high diverges or stalls, too low takes "
       "longer."},
      [](auto& config) -> auto& { return config.schedule.lr; }));
  options.push_back(choice(
      {"lr-schedule",
       {},
       kSchedule,
       "After warm-up: cosine and linear fall to --min-lr, constant stays, "
       "noam falls as 1/sqrt(step)."},
      {"cosine", "linear", "constant", "noam"},
      [](auto& config) -> auto& { return config.schedule.shape; }));
  options.push_back(decay_lr());
  options.push_back(integer(
      {"warmup-iters",
       {},
       kSchedule,
       "Steps in which the rate rises from 0. More is safer for deep and "
       "post-norm models."},
      [](auto& config) -> auto& { return config.schedule.warmup_iters; }));
  options.push_back(with_auto(integer(
      {"lr-decay-iters",
       {},
       kSchedule,
       "Step at which --min-lr is reached (cosine, linear); auto: --max-iters."},
      [](auto& config) -> auto& { return config.schedule.decay_iters; })));
  options.push_back(with_auto(number(
      {"min-lr", {}, kSchedule, "Learning rate that cosine and linear end at; auto: --lr / 10."},
      [](auto& config) -> auto& { return config.schedule.min_lr; })));
}

// "0,1,2,4"
Option checkpoint_at() {
  Option option = described({"checkpoint-at",
                             {},
                             kLogging,
                             "Steps whose checkpoints stay as checkpoint-STEP.safetensors, as in "
                             "0,1,2,4,8: to look at what came when; empty: none.",
                             "T,T,..."},
                            Option::Kind::text);
  option.set = [](RunConfig& config, std::string_view text) {
    config.checkpoint_at.clear();
    if (text.empty()) return;
    for (const std::string_view step : split(text, ','))
      config.checkpoint_at.push_back(integer_of("checkpoint-at", step));
  };
  option.get = [](const RunConfig& config) {
    return fmt::format("{}", fmt::join(config.checkpoint_at, ","));
  };
  return changeable_on_resume(std::move(option));
}

void add_logging_options(std::vector<Option>& options) {
  options.push_back(changeable_on_resume(integer(
      {"eval-interval",
       {},
       kLogging,
       "Steps between evaluations; the first and the last step are always evaluated."},
      [](auto& config) -> auto& { return config.eval_interval; })));
  options.push_back(integer(
      {"eval-iters",
       {},
       kLogging,
       "Batches of each split in an evaluation. More: less noise, in time "
       "proportional."},
      [](auto& config) -> auto& { return config.eval_iters; }));
  options.push_back(changeable_on_resume(integer(
      {"log-interval", {}, kLogging, "Steps between lines of training loss."},
      [](auto& config) -> auto& { return config.log_interval; })));
  options.push_back(changeable_on_resume(integer(
      {"attention-interval",
       {},
       kLogging,
       "Steps between records of each head's entropy in attention.jsonl; 0: none."},
      [](auto& config) -> auto& { return config.attention_interval; })));
  options.push_back(changeable_on_resume(boolean(
      {"log-grads",
       {},
       kLogging,
       "Write gradient, weight and update of each parameter to gradients.jsonl where a line of "
       "training loss is due; --log-interval 1: at every step."},
      [](auto& config) -> auto& { return config.log_grads; })));
  options.push_back(changeable_on_resume(boolean(
      {"log-activations",
       {},
       kLogging,
       "Write the size of activations and the share of dead units of each layer to "
       "activations.jsonl, as often; those steps run without --checkpoint-activations."},
      [](auto& config) -> auto& { return config.log_activations; })));
  options.push_back(changeable_on_resume(boolean(
      {"tensorboard",
       {},
       kLogging,
       "Write TensorBoard event files into the run directory too: scalars, and histograms of the "
       "heads' entropies."},
      [](auto& config) -> auto& { return config.tensorboard; })));
  options.push_back(changeable_on_resume(integer(
      {"save-interval", {}, kLogging, "Steps between checkpoints; 0: at each evaluation."},
      [](auto& config) -> auto& { return config.save_interval; })));
  options.push_back(changeable_on_resume(integer(
      {"keep-last",
       {},
       kLogging,
       "Checkpoints that stay, the newest and those before it as checkpoint-STEP.safetensors; 0 or "
       "1: the newest alone. Each takes three times the memory of the weights."},
      [](auto& config) -> auto& { return config.keep_last; })));
  options.push_back(changeable_on_resume(boolean(
      {"keep-best",
       {},
       kLogging,
       "Keep the state of the smallest validation loss as best.safetensors; costs a write at each "
       "evaluation that is the best so far."},
      [](auto& config) -> auto& { return config.keep_best; })));
  options.push_back(checkpoint_at());
  options.push_back(changeable_on_resume(boolean(
      {"log-heads",
       {},
       kLogging,
       "Score every head at each evaluation: previous token, duplicate token, induction, on random "
       "tokens that repeat, in heads.jsonl."},
      [](auto& config) -> auto& { return config.log_heads; })));
}

void add_stopping_options(std::vector<Option>& options) {
  options.push_back(changeable_on_resume(number(
      {"target-accuracy",
       {},
       kStopping,
       "Stop when an evaluation reaches this share of right answers (val_exact, or "
       "val_accuracy where a task has no answers), 0 to 1; 0: off."},
      [](auto& config) -> auto& { return config.target_accuracy; })));
  options.push_back(changeable_on_resume(number(
      {"target-loss",
       {},
       kStopping,
       "Stop when an evaluation reaches this validation loss, in nats per scored token; 0: off."},
      [](auto& config) -> auto& { return config.target_loss; })));
  options.push_back(changeable_on_resume(duration(
      {"time-budget", {}, kStopping, "Stop after this time: 90s, 3m, 1.5h; 0: off."},
      [](auto& config) -> auto& { return config.time_budget_seconds; })));
}

// Flags of nanoGPT's documented commands that leave no choice here.
Option only(Words words, Option::Kind kind, std::string value, const char* reason) {
  Option option = described(std::move(words), kind);
  option.set = [name = option.name, value, kind, reason](RunConfig&, std::string_view text) {
    const bool matches =
        kind == Option::Kind::boolean ? text_of(boolean_of(name, text)) == value : text == value;
    if (!matches) throw ConfigError(fmt::format("--{}: '{}': {}", name, text, reason));
  };
  option.get = [value](const RunConfig&) { return value; };
  return not_stored(std::move(option));
}

void add_run_options(std::vector<Option>& options) {
  options.push_back(not_stored(text(
      {"out-dir",
       {},
       kRun,
       "Run directory; empty: runs/TASK-NUMBER. One that holds a run "
       "is refused unless --resume is given.",
       "DIR"},
      [](auto& config) -> auto& { return config.out_dir; })));
  options.push_back(not_stored(boolean(
      {"resume", {}, kRun, "Go on from the checkpoint in the run directory."},
      [](auto& config) -> auto& { return config.resume; })));
  options.push_back(not_stored(integer(
      {"threads",
       {},
       kRun,
       "Threads that work; 0: the physical cores available. The "
       "result does not depend on it."},
      [](auto& config) -> auto& { return config.threads; })));
  options.push_back(not_stored(boolean(
      {"checkpoint-activations",
       {},
       kRun,
       "Keep the input of each block alone and compute the rest again for the backward pass: "
       "memory for the activations of one block, about a third more time, the same result."},
      [](auto& config) -> auto& { return config.checkpoint_activations; })));
  options.push_back(implying(
      "op", not_stored(enumeration<ProfileTable>(
                {"profile",
                 {},
                 kRun,
                 "When the run ends, print where its time went: each operation (op), or each "
                 "module of the model, and all that is none. The result does not depend on it."},
                {"off", "op", "module"}, [](auto& config) -> auto& { return config.profile; }))));
  options.push_back(not_stored(boolean(
      {"profile-values",
       {},
       kRun,
       "With --profile: also how large the outputs of each are (root mean square) and the norm of "
       "the gradient that reaches them. Costs a pass over every value."},
      [](auto& config) -> auto& { return config.profile_values; })));
  options.push_back(not_stored(boolean(
      {"detect-anomaly",
       {"check-nan"},
       kRun,
       "Stop at the first value or gradient that is not finite, name op, module and what it came "
       "from, and keep the step in anomaly.safetensors for 'attune replay'; also with "
       "--skip-nonfinite. Costs a pass over every value."},
      [](auto& config) -> auto& { return config.detect_anomaly; })));
  options.push_back(not_stored(text(
      {"dot",
       {},
       kRun,
       "Write the graph of the first training step to this file, module by module, for Graphviz: "
       "dot -Tsvg FILE.",
       "FILE"},
      [](auto& config) -> auto& { return config.dot; })));
  options.push_back(not_stored(boolean(
      {"dot-ops", {}, kRun, "With --dot: every operation and every parameter, not only modules."},
      [](auto& config) -> auto& { return config.dot_ops; })));
  options.push_back(only({"device", {}, kRun, "Only cpu; accepted so that nanoGPT's commands run."},
                         Option::Kind::text, "cpu", "only cpu is supported"));
  options.push_back(
      only({"compile", {}, kRun, "Only false; accepted so that nanoGPT's commands run."},
           Option::Kind::boolean, "false", "there is nothing to compile; leave it out"));
}

}  // namespace

std::vector<Option> run_options() {
  std::vector<Option> options;
  add_training_options(options);
  add_optimizer_options(options);
  add_schedule_options(options);
  add_logging_options(options);
  add_stopping_options(options);
  add_run_options(options);
  return options;
}

}  // namespace attune::option
