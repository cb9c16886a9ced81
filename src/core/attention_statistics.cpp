#include "attune/core/attention_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "attune/core/error.h"

namespace attune {
namespace {

double mean(double sum, std::int64_t count) {
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

void require_inside(const char* what, int value, int extent) {
  if (value < 0 || value >= extent) {
    throw ValueError(
        fmt::format("attention statistics: {} {}, expected 0 to {}", what, value, extent - 1));
  }
}

}  // namespace

HeadStatistics& HeadStatistics::operator+=(const HeadStatistics& other) {
  entropy_sum += other.entropy_sum;
  log_keys_sum += other.log_keys_sum;
  normalized_sum += other.normalized_sum;
  effective_keys_sum += other.effective_keys_sum;
  max_probability_sum += other.max_probability_sum;
  score_sum += other.score_sum;
  score_square_sum += other.score_square_sum;
  score_row_variance_sum += other.score_row_variance_sum;
  score_count += other.score_count;
  score_max_abs = std::max(score_max_abs, other.score_max_abs);
  distance_sum += other.distance_sum;
  sink_mass_sum += other.sink_mass_sum;
  shares = shares || other.shares;
  weight_sum += other.weight_sum;
  rows_valid += other.rows_valid;
  rows_single += other.rows_single;
  rows_empty += other.rows_empty;
  violations += other.violations;
  return *this;
}

double HeadStatistics::entropy_nats() const { return mean(entropy_sum, rows_valid); }

double HeadStatistics::entropy_norm() const {
  return rows_valid == 0 ? 0.0 : entropy_sum / log_keys_sum;
}

double HeadStatistics::max_probability() const { return mean(max_probability_sum, rows_valid); }

double HeadStatistics::score_std() const {
  return std::sqrt(mean(score_row_variance_sum, rows_valid));
}

double HeadStatistics::sink_mass() const { return mean(sink_mass_sum, rows_valid); }

double HeadStatistics::row_sum() const { return shares ? mean(weight_sum, rows_valid) : 1.0; }

AttentionStatistics::AttentionStatistics(int layers, int heads) : layers_(layers), heads_(heads) {
  if (layers < 0 || heads < 0) {
    throw ValueError(fmt::format(
        "attention statistics: {} layers of {} heads, expected 0 or more of both", layers, heads));
  }
  statistics_.resize(static_cast<std::size_t>(layers) * static_cast<std::size_t>(heads));
}

HeadStatistics& AttentionStatistics::at(int layer, int head) {
  return const_cast<HeadStatistics&>(std::as_const(*this).at(layer, head));
}

const HeadStatistics& AttentionStatistics::at(int layer, int head) const {
  require_inside("layer", layer, layers_);
  require_inside("head", head, heads_);
  return statistics_[static_cast<std::size_t>(layer) * static_cast<std::size_t>(heads_) +
                     static_cast<std::size_t>(head)];
}

std::span<HeadStatistics> AttentionStatistics::layer(int layer) {
  require_inside("layer", layer, layers_);
  const auto heads = static_cast<std::size_t>(heads_);
  return std::span(statistics_).subspan(static_cast<std::size_t>(layer) * heads, heads);
}

AttentionStatistics& AttentionStatistics::operator+=(const AttentionStatistics& other) {
  if (other.statistics_.empty()) return *this;
  if (statistics_.empty()) return *this = other;
  if (layers_ != other.layers_ || heads_ != other.heads_) {
    throw ShapeError(fmt::format(
        "attention statistics: {} layers of {} heads do not add to {} layers of {} heads",
        other.layers_, other.heads_, layers_, heads_));
  }
  for (std::size_t i = 0; i < statistics_.size(); ++i) statistics_[i] += other.statistics_[i];
  return *this;
}

void AttentionStatistics::clear() {
  std::fill(statistics_.begin(), statistics_.end(), HeadStatistics{});
}

}  // namespace attune
