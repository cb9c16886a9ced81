// What does a head do? Tap every head's weights, score them, then take heads out one by one and
// see what the model misses. Nothing of the model is touched: all of it goes through hooks.
#include <cstdio>
#include <vector>

#include <attune/observe/head_detectors.h>
#include <attune/observe/interventions.h>
#include <attune/observe/taps.h>
#include <attune/task/task.h>
#include <attune/train/trainer.h>

int main() {
  attune::RunConfig config = attune::RunConfig::defaults_for("reverse");
  config.task.max_length = 4;
  config.task.symbols = 10;
  config.model.n_head = 2;
  config.model.n_embd = 32;
  config.batch_size = 32;
  config.max_iters = 800;
  config.schedule.lr = 3e-3;
  config.eval_interval = 800;
  config = config.resolved();
  const auto task = attune::make_task(config.task);
  attune::Trainer trainer(config, *task);
  static_cast<void>(trainer.run(nullptr, "", {}));
  const attune::Transformer& model = trainer.model();

  const attune::BatchSource source(*task, 1, 0);
  const attune::Batch batch = source.evaluation(attune::Split::validation, 0, 256);
  const attune::TokenBatch tokens{batch.tokens, batch.examples, batch.time};
  // Accuracy of answers while some hooks are at work.
  const auto accuracy = [&](attune::Hooks* hooks) {
    attune::Pass pass;
    pass.hooks = hooks;
    const attune::CrossEntropy loss = model.loss(tokens, batch.targets, pass);
    return static_cast<double>(loss.correct) / static_cast<double>(loss.scored);
  };

  attune::Taps taps({attune::HookPoint::pattern});
  const double whole = accuracy(&taps);
  std::printf("accuracy %.3f\n\nhead  previous  duplicate  accuracy without it\n", whole);
  double worst = 1;
  for (const attune::HeadRef& head : attune::all_heads(model)) {
    const attune::Array& pattern = taps.at(attune::HookPoint::pattern, head.layer);
    const attune::HeadScores scores =
        attune::score_heads(pattern, batch.tokens)[static_cast<std::size_t>(head.head)];
    attune::HeadAblation ablation(model, std::span(&head, 1));
    const double without = accuracy(&ablation);
    if (without < worst) worst = without;
    std::printf("%d.%d   %8.3f  %9.3f  %.3f\n", head.layer, head.head, scores.previous_token,
                scores.duplicate_token, without);
  }
  attune::HeadAblation everything(model, attune::all_heads(model));
  const double without_all = accuracy(&everything);
  std::printf("all                        %.3f\n", without_all);

  if (whole < 0.95) {
    std::puts("the task was not learned");
    return 1;
  }
  if (!(worst < whole - 0.05) || !(without_all < worst)) {
    std::puts("no head is missed");
    return 1;
  }
  return 0;
}
