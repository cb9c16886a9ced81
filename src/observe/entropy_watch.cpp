#include "attune/observe/entropy_watch.h"

#include <algorithm>

#include <fmt/format.h>

#include "attune/train/options.h"

namespace attune {
namespace {

constexpr int kCollapsedRecords = 3;
constexpr double kCollapseWithin = 0.1;  // of the run
constexpr double kUniformFrom = 0.2;     // of the run
constexpr double kScoresBeyond = 50;

// As it would be given on the command line.
std::string given(const RunConfig& config, const char* option) {
  return fmt::format("--{} {}", option, find_option(option)->get(config));
}

std::string suspects_of(const RunConfig& config) {
  return fmt::format("{} with {}, {}, {}", given(config, "lr"), given(config, "warmup-iters"),
                     given(config, "attn-scale"), given(config, "init"));
}

}  // namespace

std::vector<HeadReading> readings_of(const AttentionStatistics& statistics) {
  std::vector<HeadReading> readings;
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      HeadReading reading{layer, head, one.score_max_abs};
      if (one.rows_valid > 0 && !one.shares) reading.entropy_norm = one.entropy_norm();
      readings.push_back(reading);
    }
  }
  return readings;
}

EntropyWatch::EntropyWatch(const RunConfig& config)
    : max_iters_(static_cast<double>(config.max_iters)), suspects_(suspects_of(config)) {}

bool EntropyWatch::is_new(const std::string& kind, int layer, int head) {
  return raised_.emplace(kind, layer, head).second;
}

std::vector<Alarm> EntropyWatch::see(std::int64_t step, std::span<const HeadReading> heads) {
  std::vector<Alarm> alarms;
  for (std::size_t begin = 0; begin < heads.size();) {
    std::size_t end = begin;
    while (end < heads.size() && heads[end].layer == heads[begin].layer) ++end;
    const std::span<const HeadReading> layer = heads.subspan(begin, end - begin);
    for (const HeadReading& head : layer) see_head(step, head, alarms);
    see_layer(step, layer, alarms);
    begin = end;
  }
  for (Alarm& alarm : alarms) alarm.step = step;
  return alarms;
}

void EntropyWatch::see_head(std::int64_t step, const HeadReading& head,
                            std::vector<Alarm>& alarms) {
  const bool early = static_cast<double>(step) <= kCollapseWithin * max_iters_;
  const bool is_low = early && head.entropy_norm && *head.entropy_norm < kCollapsedBelow;
  int& low = low_[{head.layer, head.head}];
  low = is_low ? low + 1 : 0;
  if (low >= kCollapsedRecords && is_new("collapse", head.layer, head.head)) {
    alarms.push_back({0, "collapse", head.layer, head.head, *head.entropy_norm,
                      fmt::format("layer {} head {} looks at one key: entropy {:.3f} of the "
                                  "largest, for {} records in a row",
                                  head.layer, head.head, *head.entropy_norm, low)});
  }
  if (head.score_max_abs > kScoresBeyond && is_new("logits", head.layer, head.head)) {
    alarms.push_back({0, "logits", head.layer, head.head, head.score_max_abs,
                      fmt::format("layer {} head {} has a score of {:.1f}, beyond {}", head.layer,
                                  head.head, head.score_max_abs, kScoresBeyond)});
  }
}

void EntropyWatch::see_layer(std::int64_t step, std::span<const HeadReading> heads,
                             std::vector<Alarm>& alarms) {
  if (static_cast<double>(step) < kUniformFrom * max_iters_) return;
  double smallest = 1;
  for (const HeadReading& head : heads) {
    if (!head.entropy_norm || !(*head.entropy_norm > kUniformAbove)) return;
    smallest = std::min(smallest, *head.entropy_norm);
  }
  const int layer = heads.front().layer;
  if (!is_new("uniform", layer, -1)) return;
  alarms.push_back({0, "uniform", layer, std::nullopt, smallest,
                    fmt::format("layer {} looks at all keys alike: the entropy of all {} heads is "
                                "{:.3f} of the largest or more",
                                layer, heads.size(), smallest)});
}

}  // namespace attune
