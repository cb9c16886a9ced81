#include "attune/train/run_config.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "attune/core/error.h"

namespace attune::run_config_test {

std::string error_of(const std::string& task, const std::function<void(RunConfig&)>& change) {
  RunConfig config = RunConfig::defaults_for(task);
  change(config);
  try {
    (void)config.resolved();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// The command that nanoGPT's README gives for a CPU, with the defaults of its train.py.
TEST(RunConfig, TextDefaultsToTheSmallRecipeOfNanoGpt) {
  const RunConfig config = RunConfig::defaults_for("text").resolved();
  EXPECT_EQ(config.model.n_layer, 4);
  EXPECT_EQ(config.model.n_head, 4);
  EXPECT_EQ(config.model.n_embd, 128);
  EXPECT_EQ(config.model.block_size, 64);
  EXPECT_EQ(config.task.block_size, 64);
  EXPECT_EQ(config.batch_size, 12);
  EXPECT_EQ(config.grad_accum, 1);
  EXPECT_EQ(config.max_iters, 2000);
  EXPECT_EQ(config.optimizer.kind, "adamw");
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  EXPECT_EQ(config.schedule.shape, "cosine");
  EXPECT_EQ(config.schedule.lr, 1e-3);
  EXPECT_EQ(config.schedule.min_lr, 1e-4);
  EXPECT_EQ(config.schedule.warmup_iters, 100);
  EXPECT_EQ(config.schedule.decay_iters, 2000);
  EXPECT_EQ(config.grad_clip, 1.0);
  EXPECT_EQ(config.model.dropout, 0);
  EXPECT_EQ(config.model.positions, "learned");
  EXPECT_EQ(config.model.activation, Activation::gelu);
  EXPECT_FALSE(config.model.bias);
  EXPECT_TRUE(config.model.tie_head);
  EXPECT_EQ(config.model.init, "gpt2");
  EXPECT_EQ(config.model.init_std, 0.02);
}

TEST(RunConfig, EveryTaskHasDefaultsThatResolve) {
  ASSERT_FALSE(list_tasks().empty());
  for (const TaskInfo& task : list_tasks()) {
    const RunConfig config = RunConfig::defaults_for(task.name).resolved();
    EXPECT_EQ(config.task.name, task.name);
    if (task.name == "text") continue;
    EXPECT_EQ(config.model.n_layer, 2) << task.name;
    EXPECT_EQ(config.model.n_embd, 64) << task.name;
    if (task.name != "modular") {
      EXPECT_EQ(config.batch_size, 64) << task.name;
      EXPECT_EQ(config.model.positions, "sinusoidal") << task.name;
    }
    EXPECT_EQ(config.model.block_size, 0) << task.name;
    EXPECT_EQ(make_task(config.task)->name(), task.name);
  }
}

TEST(RunConfig, ParityDefaultsToLengthsUpToTen) {
  EXPECT_EQ(RunConfig::defaults_for("parity").task.max_length, 10);
  EXPECT_EQ(RunConfig::defaults_for("copy").task.max_length, 12);
}

TEST(RunConfig, AnUnknownTaskIsAnErrorWithTheNearestName) {
  try {
    (void)RunConfig::defaults_for("revers");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "task 'revers' is unknown; did you mean reverse? (see attune list tasks)");
  }
}

TEST(RunConfig, FieldsThatFollowOthersAreFilled) {
  RunConfig config = RunConfig::defaults_for("text");
  config.schedule.lr = 3e-3;
  config.max_iters = 500;
  config.model.dropout = 0.2;
  config.model.n_head = 8;
  config.model.n_embd = 96;
  const RunConfig resolved = config.resolved();
  EXPECT_DOUBLE_EQ(resolved.schedule.min_lr, 3e-4);
  EXPECT_EQ(resolved.schedule.decay_iters, 500);
  EXPECT_EQ(resolved.model.attention_dropout, 0.2);
  EXPECT_EQ(resolved.model.head_dim, 12);
  EXPECT_EQ(resolved.model.value_dim, 12);
  EXPECT_EQ(resolved.model.d_ff, 384);
}

TEST(RunConfig, GivenFieldsDoNotFollow) {
  RunConfig config = RunConfig::defaults_for("text");
  config.schedule.min_lr = 0;
  config.schedule.decay_iters = 0;
  config.model.dropout = 0.2;
  config.model.attention_dropout = 0;
  config.model.n_head = 3;
  config.model.head_dim = 5;
  const RunConfig resolved = config.resolved();
  EXPECT_EQ(resolved.schedule.min_lr, 0);
  EXPECT_EQ(resolved.schedule.decay_iters, 0);
  EXPECT_EQ(resolved.model.attention_dropout, 0);
  EXPECT_EQ(resolved.model.head_dim, 5);
  EXPECT_EQ(resolved.model.value_dim, 5);
}

TEST(RunConfig, ResolvingTwiceChangesNothing) {
  const RunConfig once = RunConfig::defaults_for("text").resolved();
  RunConfig longer = once;
  longer.max_iters = 4000;  // as a resumed run may ask for: the schedule stays as resolved
  EXPECT_EQ(longer.resolved().schedule.decay_iters, 2000);
}

TEST(RunConfig, HeadsMustDivideTheWidth) {
  EXPECT_EQ(error_of("copy",
                     [](RunConfig& c) {
                       c.model.n_head = 3;
                       c.model.n_embd = 8;
                     }),
            "--n-head 3 does not divide --n-embd 8");
}

TEST(RunConfig, DropoutMayBeOne) {
  EXPECT_EQ(error_of("copy", [](RunConfig& c) { c.model.dropout = 1; }), "");
}

// Sizes that cannot be meant are usage errors, not failed allocations.
TEST(RunConfig, HugeSizesAreRefused) {
  EXPECT_EQ(error_of("copy", [](RunConfig& c) { c.model.n_layer = 1'000'000'000'000'000'000; }),
            "--n-layer: 1000000000000000000 is outside 1 to 1000");
  EXPECT_EQ(error_of("copy",
                     [](RunConfig& c) {
                       c.model.n_layer = 1000;
                       c.model.n_embd = 65536;
                     }),
            "--n-layer 1000 with --n-embd 65536 makes 51,539,611,811,840 parameters; at most "
            "4,294,967,296 are supported");
  EXPECT_EQ(error_of("copy",
                     [](RunConfig& c) {
                       c.batch_size = 1 << 20;
                       c.grad_accum = 1 << 20;
                     }),
            "--batch-size 1048576 times --grad-accum 1048576 is more than 2147483647 examples");
}

TEST(RunConfig, EveryFieldOutsideItsDomainNamesItsOption) {
  struct Case {
    std::function<void(RunConfig&)> change;
    std::string message;
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases{
      {[](RunConfig& c) { c.model.n_layer = 0; }, "--n-layer: 0 is outside 1 to 1000"},
      {[](RunConfig& c) { c.model.n_head = -1; }, "--n-head: -1 is outside 1 to 4096"},
      {[](RunConfig& c) { c.model.n_embd = 0; }, "--n-embd: 0 is outside 1 to 65536"},
      {[](RunConfig& c) { c.model.block_size = 0; }, "--block-size: 0 is outside 1 to 2147483647"},
      {[](RunConfig& c) { c.model.d_ff = -4; }, "--d-ff: -4 is outside 0 to 1048576"},
      {[](RunConfig& c) { c.model.dropout = -0.1; }, "--dropout: -0.1 is outside 0 to 1"},
      {[](RunConfig& c) { c.model.dropout = kNan; }, "--dropout: nan is outside 0 to 1"},
      {[](RunConfig& c) { c.model.attention_dropout = 1.5; },
       "--attn-dropout: 1.5 is outside 0 to 1"},
      {[](RunConfig& c) { c.model.init_std = -1; },
       "--init-std: -1 is not a finite number of at least 0"},
      {[](RunConfig& c) { c.model.mask = "casual"; },
       "--mask: 'casual' is unknown; did you mean causal? (known: causal, none, window, "
       "dilated, global, bigbird, prefix, documents)"},
      {[](RunConfig& c) { c.schedule.lr = -1; }, "--lr: -1 is not a finite number of at least 0"},
      {[](RunConfig& c) { c.schedule.lr = kNan; },
       "--lr: nan is not a finite number of at least 0"},
      {[](RunConfig& c) { c.schedule.min_lr = 0.01; }, "--min-lr 0.01 is above --lr 0.001"},
      {[](RunConfig& c) { c.schedule.decay_iters = -2; },
       "--lr-decay-iters: -2 is outside 0 to 2147483647"},
      {[](RunConfig& c) { c.optimizer.beta1 = 1; }, "--beta1: 1 is not in [0, 1)"},
      {[](RunConfig& c) { c.max_iters = -5; }, "--max-iters: -5 is outside 0 to 2147483647"},
      {[](RunConfig& c) { c.batch_size = 0; }, "--batch-size: 0 is outside 1 to 1048576"},
      {[](RunConfig& c) { c.shards = 0; }, "--shards: 0 is outside 1 to 1024"},
      {[](RunConfig& c) { c.eval_interval = 0; }, "--eval-interval: 0 is outside 1 to 2147483647"},
      {[](RunConfig& c) { c.eval_iters = 0; }, "--eval-iters: 0 is outside 1 to 2147483647"},
      {[](RunConfig& c) { c.log_interval = 0; }, "--log-interval: 0 is outside 1 to 2147483647"},
      {[](RunConfig& c) { c.expert_balance = -1; },
       "--expert-balance: -1 is not a finite number of at least 0"},
      {[](RunConfig& c) { c.label_smoothing = 1; }, "--label-smoothing: 1 is not in [0, 1)"},
      {[](RunConfig& c) { c.grad_clip = -1; },
       "--grad-clip: -1 is not a finite number of at least 0"},
      {[](RunConfig& c) { c.keep_last = -1; }, "--keep-last: -1 is outside 0 to 2147483647"},
      {[](RunConfig& c) { c.target_accuracy = 99; }, "--target-accuracy: 99 is outside 0 to 1"},
      {[](RunConfig& c) { c.seed = -1; }, "--seed: -1 is outside 0 to 9223372036854775807"},
      {[](RunConfig& c) { c.threads = -1; }, "--threads: -1 is outside 0 to 1024"},
      {[](RunConfig& c) { c.task.min_length = 13; },
       "--length: 13..12 is empty; the first number is the smaller one"},
      {[](RunConfig& c) { c.task.op = "pow"; },
       "--op: 'pow' is unknown (known: add, sub, mul, div)"},
  };
  for (const Case& item : cases) EXPECT_EQ(error_of("text", item.change), item.message);
}

TEST(RunConfig, TheMinimumIsNotComparedWhereNothingDecaysToIt) {
  EXPECT_EQ(error_of("text",
                     [](RunConfig& c) {
                       c.schedule.shape = "constant";
                       c.schedule.min_lr = 0.01;
                     }),
            "");
}

}  // namespace attune::run_config_test
