#include "attune/observe/head_detectors.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/random.h"
#include "attune/observe/taps.h"
#include "core/index.h"

namespace attune {
namespace {

constexpr std::int64_t kProbeExamples = 32;
constexpr std::int64_t kShortestProbe = 8;
constexpr std::int64_t kLongestProbe = 128;

// Keys that the queries of one example are scored on.
struct Pairs {
  struct Pair {
    std::int64_t query, key;
  };
  std::vector<Pair> previous, duplicate, induction;
};

Pairs pairs_of(std::span<const std::int32_t> tokens) {
  Pairs pairs;
  for (std::int64_t i = 1; i < std::ssize(tokens); ++i) {
    pairs.previous.push_back({i, i - 1});
    for (std::int64_t j = 0; j < i; ++j) {
      if (tokens[index(j)] != tokens[index(i)]) continue;
      pairs.duplicate.push_back({i, j});
      if (j + 1 < i) pairs.induction.push_back({i, j + 1});
    }
  }
  return pairs;
}

std::int64_t queries_of(const std::vector<Pairs::Pair>& pairs) {
  std::int64_t count = 0;
  std::int64_t last = -1;
  for (const Pairs::Pair& pair : pairs) {
    count += pair.query != last;
    last = pair.query;
  }
  return count;
}

double sum_over(const std::vector<Pairs::Pair>& pairs, const double* map, std::int64_t key) {
  double sum = 0;
  for (const Pairs::Pair& pair : pairs) sum += map[pair.query * key + pair.key];
  return sum;
}

void divide(double& sum, std::int64_t queries) {
  if (queries > 0) sum /= static_cast<double>(queries);
}

}  // namespace

std::vector<HeadScores> score_heads(const Array& pattern, std::span<const std::int32_t> tokens) {
  const Shape& shape = pattern.shape();
  if (shape.rank() != 4 || shape[2] != shape[3] || std::ssize(tokens) != shape[0] * shape[3]) {
    throw ShapeError(
        fmt::format("score_heads: {} tokens for a pattern {}, expected [batch, heads, "
                    "time, time] for [batch, time]",
                    tokens.size(), to_string(shape)));
  }
  const std::int64_t batch = shape[0], heads = shape[1], time = shape[2];
  const std::vector<double> weights = pattern.to_vector();
  std::vector<HeadScores> scores(index(heads));
  std::int64_t previous = 0, duplicate = 0, induction = 0;  // queries
  for (std::int64_t b = 0; b < batch; ++b) {
    const Pairs pairs = pairs_of(tokens.subspan(index(b * time), index(time)));
    previous += queries_of(pairs.previous);
    duplicate += queries_of(pairs.duplicate);
    induction += queries_of(pairs.induction);
    for (std::int64_t h = 0; h < heads; ++h) {
      const double* map = weights.data() + (b * heads + h) * time * time;
      HeadScores& head = scores[index(h)];
      head.previous_token += sum_over(pairs.previous, map, time);
      head.duplicate_token += sum_over(pairs.duplicate, map, time);
      head.induction += sum_over(pairs.induction, map, time);
    }
  }
  for (HeadScores& head : scores) {
    divide(head.previous_token, previous);
    divide(head.duplicate_token, duplicate);
    divide(head.induction, induction);
  }
  return scores;
}

ProbeTokens repeated_random_tokens(std::int64_t vocabulary, std::int64_t batch, std::int64_t time,
                                   std::uint64_t seed) {
  if (vocabulary < 1 || batch < 1 || time < 2)
    throw ValueError(fmt::format("probe tokens: vocabulary {}, batch {}, time {}; at least 1, 1, 2",
                                 vocabulary, batch, time));
  ProbeTokens probe{{}, batch, time};
  const RandomStream stream = Randomness{seed}.stream("observe.probe");
  for (std::int64_t b = 0; b < batch; ++b) {
    RandomCursor cursor(stream, static_cast<std::uint32_t>(b));
    const std::int64_t period = cursor.between(std::max<std::int64_t>(time / 4, 1), time / 2);
    const std::int64_t first = b * time;
    std::vector<std::int32_t> deck(index(vocabulary));
    std::iota(deck.begin(), deck.end(), 0);
    for (std::int64_t i = 0; i < time; ++i) {
      if (i >= period) {
        probe.tokens.push_back(probe.tokens[index(first + i - period)]);
        continue;
      }
      // The next card of a deck that is shuffled as it is dealt, and again when it is out.
      const std::int64_t dealt = i % vocabulary;
      std::swap(deck[index(dealt)], deck[index(cursor.between(dealt, vocabulary - 1))]);
      probe.tokens.push_back(deck[index(dealt)]);
    }
  }
  return probe;
}

ProbeTokens probe_tokens(const Transformer& model) {
  std::int64_t time = std::clamp(model.config().block_size, kShortestProbe, kLongestProbe);
  if (model.length_limit() > 0) time = std::min(time, model.length_limit());
  return repeated_random_tokens(model.config().vocabulary, kProbeExamples,
                                std::max<std::int64_t>(time, 2));
}

HeadTable detect_heads(const Transformer& model, const TokenBatch& batch) {
  HeadTable table{static_cast<int>(model.config().n_layer), 0, {}};
  if (model.make_statistics().heads() == 0) return table;
  Taps taps({HookPoint::pattern});
  Pass pass;
  pass.hooks = &taps;
  static_cast<void>(model.hidden(batch, pass));
  for (int layer = 0; layer < table.layers; ++layer) {
    const std::vector<HeadScores> scores =
        score_heads(taps.at(HookPoint::pattern, layer), batch.tokens);
    table.heads = static_cast<int>(scores.size());
    table.scores.insert(table.scores.end(), scores.begin(), scores.end());
  }
  return table;
}

}  // namespace attune
