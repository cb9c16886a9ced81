#include <gtest/gtest.h>

#include "train/tiny_run.h"

// What a window cannot reach a global token brings (Longformer): the first of 49 symbols has to be
// said at the last, by two layers that look back 7 tokens each.
namespace attune::sparse_mask_test {

class FirstSymbol final : public Task {
 public:
  [[nodiscard]] std::string_view name() const override { return "first-symbol"; }
  [[nodiscard]] std::string_view description() const override { return "say the first symbol"; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 8; }
  [[nodiscard]] std::int64_t time() const override { return 49; }
  [[nodiscard]] double chance() const override { return 1.0 / 8; }
  void draw(Split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(cursor.below(8));
    std::ranges::fill(targets, kIgnore);
    targets.back() = tokens.front();
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t>) const override { return ""; }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
};

double accuracy_with(const std::string& mask) {
  RunConfig config = RunConfig::defaults_for("copy");
  config.model.n_embd = 32;
  config.model.mask = mask;
  config.model.mask_sizes = {.window = 8, .global_tokens = 1};
  config.batch_size = 32;
  config.max_iters = 300;
  config.schedule.lr = 3e-3;
  config.eval_interval = 300;
  config.eval_iters = 40;
  config.attention_interval = 0;
  const FirstSymbol task;
  Trainer trainer(config.resolved(), task);
  Recorder recorder;
  TrainObserver* const observers[] = {&recorder};
  static_cast<void>(trainer.run(nullptr, "config", observers, {}));
  return recorder.records.back().validation->accuracy();
}

TEST(SparseMask, AWindowCannotReachWhatAGlobalTokenBrings) {
  EXPECT_LE(accuracy_with("causal+window"), 1.0 / 8 + 0.05);
  EXPECT_GE(accuracy_with("causal+global"), 0.95);
}

}  // namespace attune::sparse_mask_test
