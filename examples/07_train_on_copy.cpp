// A whole training run from C++: a task, a configuration, a trainer, an observer. Nothing is
// written to disk. The model learns to say a sequence of up to four symbols again.
#include <cstdio>
#include <string>

#include <attune/task/task.h>
#include <attune/train/trainer.h>

namespace {

class Progress final : public attune::TrainObserver {
 public:
  void on_start(const attune::RunStart& start) override {
    std::printf("example %s, %lld parameters, chance %.3f\n", start.example.c_str(),
                static_cast<long long>(start.parameters), start.chance);
  }
  void on_step(const attune::StepRecord& record) override {
    if (!record.validation) return;
    std::printf("step %4lld  loss %.4f nats  tokens right %.3f  answers right %.3f\n",
                static_cast<long long>(record.step), record.validation->loss_nats(),
                record.validation->accuracy(), record.validation->exact_share());
  }
};

}  // namespace

int main() {
  attune::RunConfig config = attune::RunConfig::defaults_for("copy");
  config.task.max_length = 4;
  config.task.symbols = 6;
  config.model.n_embd = 32;
  config.batch_size = 32;
  config.max_iters = 1500;
  config.schedule.lr = 3e-3;
  config.eval_interval = 100;
  config.target_accuracy = 0.99;  // of whole answers, at an evaluation
  config = config.resolved();

  const auto task = attune::make_task(config.task);
  attune::Trainer trainer(config, *task);
  Progress progress;
  attune::TrainObserver* const observers[] = {&progress};
  const attune::RunSummary summary = trainer.run(nullptr, "", observers);

  std::printf("%s after %lld steps and %.1f s\n", std::string(to_string(summary.status)).c_str(),
              static_cast<long long>(summary.steps), summary.elapsed_seconds);
  if (summary.status != attune::RunStatus::target) {
    std::puts("the model did not learn to copy");
    return 1;
  }
  return 0;
}
