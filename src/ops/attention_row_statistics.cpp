#include "ops/attention_row_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace attune {
namespace {

struct KeptKey {
  double score;
  double weight;
  double distance;
};

struct Row {
  std::vector<KeptKey> keys;
  double sink = 0;  // its weight
  bool has_sink = false;
  bool shares = false;
};

// How far outside [0, ln n] rounding alone may put an entropy.
constexpr double kEntropyRounding = 1e-5;

// H = -sum w ln w over keys and sink; of shares, of w / sum w.
void add_row(const Row& row, HeadStatistics& statistics) {
  double total = 0;
  for (const KeptKey& key : row.keys) total += key.weight;
  const double outcomes = static_cast<double>(row.keys.size()) + (row.has_sink ? 1 : 0);
  const bool is_empty = row.keys.empty() || (row.shares && !(total > 0));
  if (is_empty || outcomes < 2) {
    ++(is_empty ? statistics.rows_empty : statistics.rows_single);
    return;
  }
  const double unit = row.shares ? total : 1;
  double entropy = 0, largest = 0;
  const auto add_outcome = [&](double weight) {
    if (weight > 0) entropy -= weight * std::log(weight);
    largest = std::max(largest, weight);
  };
  double sum = 0, square_sum = 0;
  for (const KeptKey& key : row.keys) {
    add_outcome(key.weight / unit);
    sum += key.score;
    square_sum += key.score * key.score;
    statistics.score_max_abs = std::max(statistics.score_max_abs, std::abs(key.score));
    statistics.distance_sum += key.weight / unit * key.distance;
  }
  if (row.has_sink) add_outcome(row.sink);

  const auto n = static_cast<double>(row.keys.size());
  for (const KeptKey& key : row.keys)
    statistics.score_row_variance_sum += (key.score - sum / n) * (key.score - sum / n) / n;
  const double log_outcomes = std::log(outcomes);
  if (!(entropy >= -kEntropyRounding && entropy <= log_outcomes + kEntropyRounding))
    ++statistics.violations;
  entropy = std::clamp(entropy, 0.0, log_outcomes);
  ++statistics.rows_valid;
  statistics.entropy_sum += entropy;
  statistics.log_keys_sum += log_outcomes;
  statistics.normalized_sum += entropy / log_outcomes;
  statistics.effective_keys_sum += std::exp(entropy);
  statistics.max_probability_sum += largest;
  statistics.score_sum += sum;
  statistics.score_square_sum += square_sum;
  statistics.score_count += n;
  statistics.sink_mass_sum += row.sink;
  if (row.shares) statistics.weight_sum += total;
}

}  // namespace

void add_row_statistics(const Array& scores, const Array& pattern, const Array& keep,
                        const Array& sink, bool shares, const kernels::AttentionExtents& extents,
                        std::span<HeadStatistics> statistics) {
  dispatch(scores.dtype(), [&]<class T>() {
    const std::span<const T> score = scores.data<T>(), weight = pattern.data<T>(),
                             flag = keep.data<T>();
    const std::int64_t keep_batch = keep.shape()[0], keep_heads = keep.shape()[1];
    Row row;
    row.has_sink = !sink.is_null();
    row.shares = shares;
    std::size_t at = 0, row_index = 0;
    for (std::int64_t b = 0; b < extents.batch; ++b)
      for (std::int64_t h = 0; h < extents.heads; ++h)
        for (std::int64_t i = 0; i < extents.query; ++i, ++row_index) {
          const std::int64_t kept_row =
              ((keep_batch == 1 ? 0 : b) * keep_heads + (keep_heads == 1 ? 0 : h)) * extents.query +
              i;
          const T* kept = flag.data() + kept_row * extents.key;
          const std::int64_t position = i + extents.key - extents.query;
          row.keys.clear();
          for (std::int64_t j = 0; j < extents.key; ++j, ++at) {
            if (kept[j] == 0 || score[at] == -std::numeric_limits<T>::infinity()) continue;
            row.keys.push_back({static_cast<double>(score[at]), static_cast<double>(weight[at]),
                                static_cast<double>(std::abs(position - j))});
          }
          if (row.has_sink) row.sink = static_cast<double>(sink.data<T>()[row_index]);
          HeadStatistics& head = statistics[static_cast<std::size_t>(h)];
          head.shares = shares;
          add_row(row, head);
        }
  });
}

}  // namespace attune
