#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace attune {

// Sums over the query rows of one attention head, from which the entropy log is made. All entropies
// are in nats, of the weights before dropout. A row is valid when it keeps at least two keys; a row
// with one key has entropy 0 by necessity and a row with none has no distribution: both are counted
// and left out of every mean. Sums and counts are added up over shards and batches; means are taken
// once, at the end.
struct HeadStatistics {
  double entropy_sum = 0;          // sum of H_i over valid rows
  double log_keys_sum = 0;         // sum of ln n_i over valid rows, n_i = kept keys
  double normalized_sum = 0;       // sum of H_i / ln n_i over valid rows
  double effective_keys_sum = 0;   // sum of exp(H_i) over valid rows
  double max_probability_sum = 0;  // sum of the largest weight over valid rows
  double score_sum = 0;            // kept scores of valid rows (scaled, biased, capped)
  double score_square_sum = 0;
  double score_row_variance_sum = 0;  // sum over valid rows of the variance of their kept scores
  double score_count = 0;
  double score_max_abs = 0;
  double distance_sum = 0;  // sum over valid rows of sum_j p_ij |position_i - position_j|, by index
  double sink_mass_sum = 0;  // sum over valid rows of the sink's weight; the sink is a kept key
  // The weights of a row are no distribution (sigmoid, relu): entropies and the largest weight are
  // of w_ij / sum_j w_ij, and rows of zeros count as empty.
  bool shares = false;
  double weight_sum = 0;  // of shares: sum over valid rows of sum_j w_ij
  std::int64_t rows_valid = 0;
  std::int64_t rows_single = 0;
  std::int64_t rows_empty = 0;
  std::int64_t violations = 0;  // entropies outside [0, ln n] by more than rounding

  HeadStatistics& operator+=(const HeadStatistics& other);

  [[nodiscard]] double entropy_nats() const;     // entropy_sum / rows_valid; 0 without valid rows
  [[nodiscard]] double entropy_norm() const;     // entropy_sum / log_keys_sum: 0 one key, 1 uniform
  [[nodiscard]] double max_probability() const;  // mean over valid rows
  [[nodiscard]] double score_std() const;        // sqrt of the mean variance within a row
  [[nodiscard]] double sink_mass() const;        // mean over valid rows
  [[nodiscard]] double row_sum() const;  // of weights, mean over valid rows; 1 but for shares
};

// The statistics of every head of every layer of a model, layer by layer.
class AttentionStatistics final {
 public:
  AttentionStatistics() = default;
  AttentionStatistics(int layers, int heads);

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int heads() const { return heads_; }
  // Throws ValueError outside the extents.
  [[nodiscard]] HeadStatistics& at(int layer, int head);
  [[nodiscard]] const HeadStatistics& at(int layer, int head) const;
  [[nodiscard]] std::span<HeadStatistics> layer(int layer);

  // Head by head. An empty side is the neutral element; other extents that differ are a ShapeError.
  AttentionStatistics& operator+=(const AttentionStatistics& other);
  void clear();  // back to zero, the extents stay

 private:
  int layers_ = 0;
  int heads_ = 0;
  std::vector<HeadStatistics> statistics_;
};

}  // namespace attune
