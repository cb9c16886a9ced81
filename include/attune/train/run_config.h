#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attune/core/dtype.h"
#include "attune/model/transformer_config.h"
#include "attune/optim/optimizer.h"
#include "attune/optim/schedule.h"
#include "attune/task/task.h"

namespace attune {

// What a run tells of its time when it ends: nothing, or a table by operation or by module.
enum class ProfileTable : std::uint8_t { off, op, module };

// Everything that decides a training run. The option table (train/options.h) documents each field.
struct RunConfig {
  TaskOptions task;
  TransformerConfig model;
  // The token that ends a document, for the mask "documents"; \n: a line break.
  std::string document_separator = "\\n";

  std::int64_t batch_size = 12;  // examples in a micro-batch
  std::int64_t grad_accum = 1;   // micro-batches in a step
  std::int64_t shards = 4;       // parts a batch is split into; fixes the result, unlike threads
  std::int64_t train_size = 0;   // distinct training examples; 0: endless
  std::int64_t max_iters = 2000;
  double label_smoothing = 0;
  double expert_balance = 0.01;  // factor on the balancing loss of a mixture; 0: none

  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  double grad_clip = 1.0;  // largest global gradient norm; 0: off
  bool skip_nonfinite = false;

  // Steps between evaluations; step 0 and the last are always evaluated.
  std::int64_t eval_interval = 250;
  std::int64_t eval_iters = 20;          // batches of an evaluation
  std::int64_t log_interval = 10;        // steps between training lines
  std::int64_t attention_interval = 50;  // steps between records of attention; 0: none
  bool log_grads = false;                // each parameter's gradient and update at logged steps
  bool log_activations = false;          // each layer's activations at logged steps
  bool tensorboard = false;              // event files beside the logs
  std::int64_t save_interval = 0;        // steps between checkpoints; 0: at each evaluation
  std::int64_t keep_last = 0;            // checkpoints that stay, the newest included; 0: as 1
  bool keep_best = true;                 // the checkpoint of the smallest validation loss
  bool log_heads = false;                // scores of heads at each evaluation
  double target_accuracy = 0;            // stop at this accuracy at an evaluation; 0: off
  double target_loss = 0;                // stop at this validation loss at an evaluation; 0: off
  double time_budget_seconds = 0;        // stop after this time; 0: off
  std::vector<std::int64_t> checkpoint_at{};  // steps whose checkpoints stay

  DType dtype = DType::float32;
  std::int64_t seed = 1337;

  // Not part of config.toml: where and how a run happens, not what it computes.
  std::int64_t threads = 0;             // 0: physical cores available
  bool checkpoint_activations = false;  // less memory, more time, the same bits
  std::string out_dir;                  // empty: runs/TASK-NUMBER
  bool resume = false;
  ProfileTable profile = ProfileTable::off;
  bool profile_values = false;  // the profile's table tells sizes of outputs and gradients as well
  bool detect_anomaly = false;  // stop at the first value or gradient that is not finite
  std::string dot;              // file for the graph of the first step; empty: none
  bool dot_ops = false;         // that graph op by op, instead of module by module

  // The documented defaults of a task. Throws ConfigError for an unknown task.
  [[nodiscard]] static RunConfig defaults_for(const std::string& task);
  // Fills what follows from other fields (lr_decay_iters, min_lr, attention dropout, head_dim, ...)
  // and checks all of it. Throws ConfigError naming the option, the value found and what was
  // expected.
  [[nodiscard]] RunConfig resolved() const;
  // The model of a task with these tokens. Throws ConfigError where the mask needs a separator that
  // is none of them.
  [[nodiscard]] TransformerConfig model_over(const std::vector<std::string>& vocabulary) const;
};

}  // namespace attune
