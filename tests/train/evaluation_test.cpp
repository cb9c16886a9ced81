#include "attune/train/evaluation.h"

#include <cmath>

#include "train/train_test.h"

namespace attune::evaluation_test {

// Examples of 5 tokens, of which 1 to 4 are scored: tokens 0 to 10 at random.
class UnevenTask final : public Task {
 public:
  [[nodiscard]] std::string_view name() const override { return "uneven"; }
  [[nodiscard]] std::string_view description() const override { return "uneven"; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 11; }
  [[nodiscard]] std::int64_t time() const override { return 5; }
  [[nodiscard]] double chance() const override { return 1.0 / 11; }
  void draw(Split, RandomCursor& cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const override {
    const std::int64_t scored = cursor.between(1, 4);
    for (std::size_t t = 0; t < 5; ++t) {
      tokens[t] = static_cast<std::int32_t>(cursor.below(11));
      const bool is_scored = static_cast<std::int64_t>(t) < scored;
      targets[t] = is_scored ? static_cast<std::int32_t>(cursor.below(11)) : kIgnore;
    }
  }
  [[nodiscard]] std::string token_text(std::int32_t token) const override {
    return std::to_string(token);
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
};

// From the logits of each example on its own, in a loop over scored tokens.
Evaluation in_a_loop(const Transformer& model, const BatchSource& source,
                     const EvaluationOptions& options) {
  Evaluation sum;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    const Batch batch = source.evaluation(Split::validation, i, options.batch_size);
    for (std::int64_t example = 0; example < batch.examples; ++example) {
      const Batch one = batch.slice(example, example + 1);
      const std::vector<double> logits = logits_of(model, one.tokens).to_vector();
      bool all = true;
      for (std::size_t t = 0; t < one.targets.size(); ++t) {
        if (one.targets[t] == kIgnore) continue;
        const auto row = std::span(logits).subspan(t * 11, 11);
        double total = 0;
        for (const double z : row) total += std::exp(z);
        sum.loss_sum += std::log(total) - row[static_cast<std::size_t>(one.targets[t])];
        const auto largest = std::ranges::max_element(row) - row.begin();
        sum.correct += largest == one.targets[t];
        all = all && largest == one.targets[t];
        ++sum.scored;
      }
      ++sum.examples;
      sum.exact += all;
    }
  }
  return sum;
}

struct Setting {
  UnevenTask task;
  BatchSource source{task, 3, 0};
  Transformer model = random_model(small_config());
  EvaluationOptions options{.batches = 7, .batch_size = 3, .statistics = true};

  [[nodiscard]] Evaluation with_threads(int threads) const {
    ThreadPool pool(threads);
    return evaluate(model, source, Split::validation, options, pool);
  }
};

TEST(Evaluation, EqualsALoopOverTokens) {
  const Setting setting;
  const Evaluation actual = setting.with_threads(2);
  const Evaluation expected = in_a_loop(setting.model, setting.source, setting.options);
  EXPECT_NEAR(actual.loss_sum, expected.loss_sum, 1e-10);
  EXPECT_EQ(actual.scored, expected.scored);
  EXPECT_EQ(actual.correct, expected.correct);
  EXPECT_EQ(actual.examples, 21);
  EXPECT_EQ(actual.exact, expected.exact);
  EXPECT_GT(actual.correct, 0);
}

// B37: batches of 4, 4 and 1 tokens with mean losses 1, 1 and 10.
TEST(Evaluation, MeansWeighTokensAndNotBatches) {
  Evaluation sum;
  sum += {.loss_sum = 4, .scored = 4, .correct = 1, .examples = 2, .exact = 1, .attention = {}};
  sum += {.loss_sum = 4, .scored = 4, .correct = 2, .examples = 2, .exact = 0, .attention = {}};
  sum += {.loss_sum = 10, .scored = 1, .correct = 0, .examples = 1, .exact = 0, .attention = {}};
  EXPECT_EQ(sum.loss_nats(), 2);
  EXPECT_DOUBLE_EQ(sum.accuracy(), 3.0 / 9);
  EXPECT_DOUBLE_EQ(sum.exact_share(), 1.0 / 5);
}

TEST(Evaluation, OfNothingIsZero) {
  const Evaluation nothing;
  EXPECT_EQ(nothing.loss_nats(), 0);
  EXPECT_EQ(nothing.accuracy(), 0);
  EXPECT_EQ(nothing.exact_share(), 0);
}

TEST(Evaluation, IsBitwiseTheSameForAnyNumberOfThreadsAndEveryTime) {
  const Setting setting;
  const Evaluation one = setting.with_threads(1);
  for (const int threads : {1, 2, 5}) {
    const Evaluation other = setting.with_threads(threads);
    EXPECT_EQ(other.loss_sum, one.loss_sum);
    EXPECT_EQ(other.correct, one.correct);
    for (int head = 0; head < 2; ++head) {
      EXPECT_EQ(other.attention.at(1, head).entropy_sum, one.attention.at(1, head).entropy_sum);
    }
  }
}

TEST(Evaluation, CountsTheAttentionOfEveryBatch) {
  Setting setting;
  const Evaluation evaluation = setting.with_threads(2);
  EXPECT_EQ(evaluation.attention.at(0, 1).rows_valid, 21 * 4);
  setting.options.statistics = false;
  EXPECT_EQ(setting.with_threads(2).attention.layers(), 0);
}

TEST(Evaluation, HasNoDropout) {
  Setting setting;
  TransformerConfig config = small_config();
  config.dropout = 0.5;
  const Transformer dropping = random_model(config);  // the same weights
  ThreadPool pool(1);
  const Evaluation evaluation =
      evaluate(dropping, setting.source, Split::validation, setting.options, pool);
  EXPECT_EQ(evaluation.loss_sum, setting.with_threads(1).loss_sum);
}

}  // namespace attune::evaluation_test
