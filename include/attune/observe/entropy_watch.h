#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attune/core/attention_statistics.h"
#include "attune/train/run_config.h"

namespace attune {

// What is worth a warning in the attention of a run; it never ends one.
//   collapse  the entropy of a head is below 0.05 of the largest in 3 records in a row, all in the
//             first tenth of the steps: the head looks at one key before it can know which
//   uniform   all heads of a layer are above 0.98 after a fifth of the steps: they look at all keys
//             alike (Zhai 2023 has the first, rank collapse of deep models shows as the second)
//   logits    a score of a head is beyond 50 in magnitude: its softmax has no gradient left
struct Alarm {
  std::int64_t step = 0;
  std::string kind;
  int layer = 0;
  std::optional<int> head{};  // none: the layer's heads together
  double value = 0;           // the entropy (of uniform: the layer's smallest), or the score
  std::string message;        // one line: layer, head, what was found
};

// Of the normalised entropy.
inline constexpr double kCollapsedBelow = 0.05;
inline constexpr double kUniformAbove = 0.98;

// One head as attention.jsonl has it.
struct HeadReading {
  int layer = 0;
  int head = 0;
  double score_max_abs = 0;
  std::optional<double> entropy_norm{};  // none where weights are no distribution, or without rows
};
[[nodiscard]] std::vector<HeadReading> readings_of(const AttentionStatistics& statistics);

// Sees the records of a run in their order and speaks up once for each kind, layer and head. Its
// state follows from the records alone: who sees them again goes on where it was.
class EntropyWatch final {
 public:
  explicit EntropyWatch(const RunConfig& config);

  // Heads in the order of layers.
  [[nodiscard]] std::vector<Alarm> see(std::int64_t step, std::span<const HeadReading> heads);
  // "--lr 0.001 with --warmup-iters 0, --attn-scale sqrt, --init xavier"
  [[nodiscard]] const std::string& suspects() const { return suspects_; }

 private:
  // Whether this is the first time.
  [[nodiscard]] bool is_new(const std::string& kind, int layer, int head);
  void see_head(std::int64_t step, const HeadReading& head, std::vector<Alarm>& alarms);
  void see_layer(std::int64_t step, std::span<const HeadReading> heads, std::vector<Alarm>& alarms);

  double max_iters_;
  std::string suspects_;
  std::set<std::tuple<std::string, int, int>> raised_;
  std::map<std::pair<int, int>, int> low_;  // of (layer, head): records in a row
};

}  // namespace attune
