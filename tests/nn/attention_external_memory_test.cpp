#include "attune/nn/attention/external_memory.h"

#include <algorithm>
#include <limits>

#include "attune/nn/linear.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/attention.h"
#include "attune/ops/loss.h"
#include "attune/ops/matmul.h"
#include "attune/ops/shaping.h"
#include "nn/attention/top_indices.h"
#include "nn/attention_test.h"

namespace attune::attention_external_memory_test {

constexpr DType kDouble = DType::float64;

TEST(TopIndices, AreTheLargestAndOfEqualsTheFirst) {
  const Array scores = Array::from({2, 5}, {1, 3, 3, -1, 3, NAN, 0, 7, 0, 0}, kDouble);
  using Indices = std::vector<std::int32_t>;
  EXPECT_EQ(top_indices(scores, 0, 2), (Indices{1, 2}));
  EXPECT_EQ(top_indices(scores, 0, 4), (Indices{0, 1, 2, 4}));
  EXPECT_EQ(top_indices(scores, 0, 9).size(), 5u);
  EXPECT_EQ(top_indices(scores, 1, 2), (Indices{0, 2}));
  const std::vector<std::uint8_t> keep = {0, 1, 0, 1, 1};
  EXPECT_EQ(top_indices(scores, 1, 2, keep), (Indices{1, 3}));
  EXPECT_TRUE(top_indices(scores, 0, 0).empty());
  const double infinity = std::numeric_limits<double>::infinity();
  const Array low = Array::from({1, 4}, {-infinity, -infinity, 1, -infinity}, kDouble);
  EXPECT_EQ(top_indices(low, 0, 3), (Indices{0, 1, 2}));
  EXPECT_EQ(top_indices(low, 0, 4), (Indices{0, 1, 2, 3}));
}

struct Filled {
  Filled(std::int64_t heads, std::int64_t width, std::int64_t value_width, std::int64_t entries,
         double reach = 1)
      : keys(random_array({entries, heads * width}, 1, kDouble, -reach, reach)),
        values(random_array({entries, heads * value_width}, 2, kDouble, -1, 1)),
        memory(heads, width, value_width, kDouble) {
    memory.add(keys, values);
  }
  Array keys, values;
  ExternalMemory memory;
};

// Softmax attention of one head of a query to the `top` entries it matches best; all: entries.
struct ByHand {
  Row mixed;
  double mass;  // of those entries in the softmax over all
};
ByHand by_hand(const Filled& filled, const Row& query, std::int64_t h, std::int64_t heads,
               std::size_t top, double scale) {
  const std::int64_t entries = filled.keys.shape()[0], width = filled.keys.shape()[1] / heads;
  const std::int64_t value_width = filled.values.shape()[1] / heads;
  Row scores;
  for (std::int64_t e = 0; e < entries; ++e) {
    double score = 0;
    for (std::int64_t c = 0; c < width; ++c)
      score += query[static_cast<std::size_t>(h * width + c)] * filled.keys.at({e, h * width + c});
    scores.push_back(scale * score);
  }
  const Row weights = softmax_of(scores);
  Row sorted = weights;
  std::sort(sorted.rbegin(), sorted.rend());
  ByHand result{Row(static_cast<std::size_t>(value_width), 0.0), 0};
  for (std::int64_t e = 0; e < entries; ++e) {
    const double weight = weights[static_cast<std::size_t>(e)];
    if (weight < sorted[top - 1]) continue;
    result.mass += weight;
    for (std::int64_t c = 0; c < value_width; ++c)
      result.mixed[static_cast<std::size_t>(c)] +=
          weight * filled.values.at({e, h * value_width + c});
  }
  for (double& element : result.mixed) element /= result.mass;
  return result;
}

TEST(ExternalMemory, AttendsToTheBestEntriesOfEachHead) {
  const Filled filled(2, 3, 5, 40);
  const Array query = random_array({2, 3, 6}, 3, kDouble, -3, 3);
  Row expected;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t h = 0; h < 2; ++h)
        append(expected, by_hand(filled, row_of(query, b, i), h, 2, 7, 1 / std::sqrt(3.0)).mixed);
  expect_near(filled.memory(query, {.top = 7}, {}).value(), expected, 1e-13);
}

TEST(ExternalMemory, WithAllEntriesIsAttentionOverTheMemory) {
  const Filled filled(1, 4, 3, 20);
  const Array query = random_array({1, 2, 4}, 3);
  const Var keys = reshape(Var(filled.keys), {1, 20, 4});
  const Var values = reshape(Var(filled.values), {1, 20, 3});
  expect_near(filled.memory(query, {.top = 100}, {}).value(),
              attention(query, keys, values, {}, {}).value(), 1e-13);
}

TEST(ExternalMemory, Top32Of4096MissAThousandthWhereTheyHoldAllButAThousandth) {
  const Filled filled(1, 16, 4, 4096, 3);
  const Array query = random_array({1, 20, 16}, 3, kDouble, -3, 3);
  const Array found = filled.memory(query, {.top = 32, .scale = 1}, {}).value();
  int sharp = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const Row q = row_of(query, 0, i);
    if (by_hand(filled, q, 0, 1, 32, 1).mass < 0.999) continue;
    ++sharp;
    const Row all = by_hand(filled, q, 0, 1, 4096, 1).mixed;
    for (std::size_t c = 0; c < 4; ++c)
      EXPECT_NEAR(found.at({0, i, static_cast<std::int64_t>(c)}), all[c], 1e-3);
  }
  EXPECT_GE(sharp, 10) << "queries sharp enough to say something";
}

TEST(ExternalMemory, GradientsReachTheQueries) {
  const Filled filled(2, 3, 2, 30);
  expect_gradients_match(
      [&](std::span<const Var> in) { return filled.memory(in[0], {.top = 4}, {}); },
      {random_array({2, 2, 6}, 3)});
}

TEST(ExternalMemory, IsEmptyAtFirstAndCanBeCleared) {
  Filled filled(1, 3, 2, 5);
  const Array query = random_array({1, 2, 3}, 3);
  filled.memory.clear();
  EXPECT_EQ(filled.memory.entries(), 0);
  expect_near(filled.memory(query, {}, {}).value(), Row(4, 0.0), 0);
  filled.memory.add(filled.keys, filled.values);
  EXPECT_EQ(filled.memory.entries(), 5);
}

TEST(ExternalMemory, LogsTheEntropyOverWhatItFound) {
  const Filled filled(2, 3, 2, 30);
  AttentionStatistics statistics(1, 2);
  Pass pass;
  pass.statistics = &statistics;
  (void)filled.memory(random_array({2, 3, 6}, 3), {.top = 4}, pass);
  EXPECT_EQ(statistics.at(0, 1).rows_valid, 6);
  EXPECT_EQ(statistics.at(0, 1).score_count, 6 * 4);
}

TEST(ExternalMemory, RefusesOtherWidthsAndNoEntries) {
  Filled filled(2, 3, 2, 5);
  expect_throws<ShapeError>(
      [&] { filled.memory.add(filled.keys, filled.keys); },
      "external memory: keys [5, 6] and values [5, 6], expected [count, 6] and [count, 4] of "
      "float64");
  expect_throws<ShapeError>(
      [&] {
        (void)filled.memory(random_array({1, 2, 5}, 1), {}, {});
      },
      "external memory: query [1, 2, 5], expected [batch, time, 6]");
  expect_throws<ValueError>(
      [&] {
        (void)filled.memory(random_array({1, 2, 6}, 1), {.top = 0}, {});
      },
      "external memory: top 0 entries, expected 1 or more");
}

// 64 facts: a question, the key under which it is filed (the question through a fixed map that the
// weights have to learn) and one of 8 answers.
struct Facts {
  static constexpr std::int64_t kCount = 64, kWidth = 12, kAnswers = 8;
  Facts(const Array& filing, std::uint64_t seed)
      : questions(random_array({1, kCount, kWidth}, seed, DType::float32, -2, 2)),
        memory(1, kWidth, kAnswers, DType::float32) {
    Row one_hot(static_cast<std::size_t>(kCount * kAnswers), 0.0);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const auto bits =
          Randomness{.seed = seed}.stream("answer").bits(static_cast<std::uint64_t>(i));
      answers.push_back(static_cast<std::int32_t>(bits[0] % kAnswers));
      one_hot[static_cast<std::size_t>(i * kAnswers + answers.back())] = 1;
    }
    const Var keys = linear(reshape(Var(questions), {kCount, kWidth}), filing);
    memory.add(keys.value(), Array::from({kCount, kAnswers}, one_hot, DType::float32));
  }
  Array questions;
  ExternalMemory memory;
  std::vector<std::int32_t> answers;
};

TEST(ExternalMemory, AnswersFactsThatTheWeightsHaveNotSeen) {
  const Array filing = random_array({Facts::kWidth, Facts::kWidth}, 50, DType::float32);
  Bench bench(DType::float32, 0.05);
  const Linear ask(bench.root / "ask", Facts::kWidth, Facts::kWidth, false, bench.init);
  const Linear read(bench.root / "read", Facts::kAnswers, Facts::kAnswers, false, bench.init);
  const auto answer = [&](const Facts& facts, const ExternalMemory& memory, const Pass& pass) {
    // While it learns how to ask, it sees every entry.
    const std::int64_t top = pass.training ? Facts::kCount : 4;
    const Var found = memory(ask(facts.questions, pass), {.top = top}, pass);
    return cross_entropy(read(found, pass), facts.answers);
  };
  descend(bench.store, 700, 0.02, [&](const Pass& pass) {
    const Facts facts(filing, 100 + pass.random.step);
    return multiply(answer(facts, facts.memory, pass).loss_sum, 1.0 / Facts::kCount);
  });
  const Facts unseen(filing, 99), others(filing, 98);
  EXPECT_GE(static_cast<double>(answer(unseen, unseen.memory, {}).correct), 0.95 * Facts::kCount);
  EXPECT_LE(static_cast<double>(answer(unseen, others.memory, {}).correct), 0.4 * Facts::kCount);
}

}  // namespace attune::attention_external_memory_test
