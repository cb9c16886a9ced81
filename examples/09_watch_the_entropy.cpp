// What attention does while it learns: the entropy of every head over the steps of a run. 1 is
// attention spread evenly over all keys, 0 is one key. It starts even and some heads become sharp.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <attune/task/task.h>
#include <attune/train/trainer.h>

namespace {

// Prints a line an evaluation and keeps the first and the last entropies.
class EntropyTable final : public attune::TrainObserver {
 public:
  void on_step(const attune::StepRecord& record) override {
    if (!record.validation) return;
    const attune::AttentionStatistics& attention = record.validation->attention;
    if (first.empty()) print_head(attention);
    last.clear();
    std::printf("%5lld  %6.3f ", static_cast<long long>(record.step),
                record.validation->accuracy());
    for (int layer = 0; layer < attention.layers(); ++layer) {
      for (int head = 0; head < attention.heads(); ++head) {
        last.push_back(attention.at(layer, head).entropy_norm());
        std::printf("  %5.3f", last.back());
      }
    }
    std::puts("");
    if (first.empty()) first = last;
  }

  std::vector<double> first, last;  // normalised entropies, layer by layer

 private:
  static void print_head(const attune::AttentionStatistics& attention) {
    std::printf(" step    right ");
    for (int layer = 0; layer < attention.layers(); ++layer) {
      for (int head = 0; head < attention.heads(); ++head) std::printf("   L%dH%d", layer, head);
    }
    std::puts("");
  }
};

}  // namespace

int main() {
  attune::RunConfig config = attune::RunConfig::defaults_for("reverse");
  config.task.max_length = 3;
  config.task.symbols = 6;
  config.model.init = "gpt2";  // small weights: scores near 0, attention even
  config.model.n_head = 2;
  config.model.n_embd = 32;
  config.batch_size = 32;
  config.max_iters = 400;
  config.schedule.lr = 3e-3;
  config.eval_interval = 100;
  config = config.resolved();

  const auto task = attune::make_task(config.task);
  attune::Trainer trainer(config, *task);
  EntropyTable table;
  attune::TrainObserver* const observers[] = {&table};
  const attune::RunSummary summary = trainer.run(nullptr, "", observers);

  const double most_even = *std::min_element(table.first.begin(), table.first.end());
  const double sharpest = *std::min_element(table.last.begin(), table.last.end());
  std::printf("lowest entropy of a head: %.3f at the start, %.3f at the end\n", most_even,
              sharpest);
  if (!(most_even >= 0.95)) {
    std::puts("attention did not start even");
    return 1;
  }
  if (!(sharpest <= 0.5)) {
    std::puts("no head became sharp");
    return 1;
  }
  if (summary.validation->accuracy() < 0.95) {
    std::puts("the task was not learned");
    return 1;
  }
  return 0;
}
