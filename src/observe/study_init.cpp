#include "attune/observe/study_init.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "attune/autodiff/tape.h"
#include "attune/nn/masks.h"
#include "attune/observe/batch_gradient.h"
#include "attune/observe/gaussian_entropy.h"
#include "attune/observe/study_statistics.h"

namespace attune {
namespace {

using Place = std::pair<HookPoint, int>;

// The deviation of each row of scores, over all its keys and without bias.
std::vector<double> row_deviations(const Array& scores) {
  const std::vector<double> values = scores.to_vector();
  const auto keys = static_cast<std::size_t>(scores.shape().last());
  const auto n = static_cast<double>(keys);
  std::vector<double> deviations;
  if (keys < 2) return deviations;
  for (std::size_t begin = 0; begin < values.size(); begin += keys) {
    double mean = 0, square = 0;
    for (std::size_t j = begin; j < begin + keys; ++j) mean += values[j] / n;
    for (std::size_t j = begin; j < begin + keys; ++j)
      square += (values[j] - mean) * (values[j] - mean);
    deviations.push_back(std::sqrt(square / (n - 1)));
  }
  return deviations;
}

// RMS of every hooked value, and of the gradient that comes back to it; the deviations of scores.
class Probe final : public Hooks, public GradientObserver {
 public:
  bool wants_inside_of_attention(int) const override { return true; }
  Var at(HookPoint point, int layer, const Var& x) override {
    if (point == HookPoint::scores) deviations_[layer] = row_deviations(x.value());
    values_[{point, layer}] = root_mean_square(x.value());
    places_[x.slot()].push_back({point, layer});  // the end of a block is the beginning of the next
    return x;
  }
  void on_output_gradients(const Tape&, const RecordView& record,
                           std::span<const Array> dy) override {
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const auto found = places_.find(record.first_output + static_cast<std::int32_t>(i));
      if (found == places_.end() || dy[i].is_null()) continue;
      for (const Place& place : found->second) gradients_[place] = root_mean_square(dy[i]);
    }
  }
  [[nodiscard]] double value(HookPoint point, int layer) const {
    return find(values_, point, layer);
  }
  // Of the rows of a layer's scores, [batch, heads, query].
  [[nodiscard]] const std::vector<double>& deviations(int layer) { return deviations_[layer]; }
  [[nodiscard]] double gradient(HookPoint point, int layer) const {
    return find(gradients_, point, layer);
  }

 private:
  static double find(const std::map<Place, double>& of, HookPoint point, int layer) {
    const auto found = of.find({point, layer});
    return found == of.end() ? kNoFigure : found->second;
  }
  std::map<std::int32_t, std::vector<Place>> places_;  // by slot
  std::map<Place, double> values_;
  std::map<Place, double> gradients_;
  std::map<int, std::vector<double>> deviations_;
};

// Entropies of normal scores, from a table that is filled where it is looked at.
class NormalEntropies final {
 public:
  // Between the entries linear in the square of the deviation, as it is for small ones.
  double nats(double score_std, std::int64_t keys) {
    const double place = score_std / kSpacing;
    const auto below = static_cast<std::int64_t>(place);
    const auto from = static_cast<double>(below);
    const double share = (place * place - from * from) / (2 * from + 1);
    return (1 - share) * entry(below, keys) + share * entry(below + 1, keys);
  }
  static constexpr double kMost = 45;  // of the deviation

 private:
  static constexpr double kSpacing = 0.05;
  double entry(std::int64_t index, std::int64_t keys) {
    const auto [known, is_new] = entries_.emplace(std::pair(index, keys), 0.0);
    if (!is_new) return known->second;
    auto entropy = entropies_.find(index);
    if (entropy == entropies_.end()) {
      const GaussianEntropy made(static_cast<double>(index) * kSpacing);
      entropy = entropies_.emplace(index, made).first;
    }
    return known->second = entropy->second.nats(keys);
  }
  std::map<std::int64_t, GaussianEntropy> entropies_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> entries_;
};

// Keys that each query row keeps; empty where that is not the same in all examples and heads.
std::vector<std::int64_t> kept_keys(const TransformerConfig& config, std::int64_t time) {
  const Mask mask = make_mask(config.mask, config.mask_sizes);
  std::vector<std::int64_t> keys;
  if (mask.is_per_example() || mask.is_per_head() || config.document_separator != kNoToken)
    return keys;
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(time));
  for (std::int64_t i = 0; i < time; ++i) keys.push_back(mask.fill_row(0, 0, i, time, time, flags));
  return keys;
}

bool is_plain_softmax(const TransformerConfig& config) {
  return config.attention == "dot-product" && config.normaliser == Normaliser::softmax &&
         config.sink == Sink::none;
}

// The share of the variance of n independent scores that lies around their own mean.
double share_within_rows(const std::vector<std::int64_t>& keys) {
  double share = 0, rows = 0;
  for (const std::int64_t n : keys) {
    if (n < 2) continue;
    share += static_cast<double>(n - 1) / static_cast<double>(n);
    ++rows;
  }
  return rows > 0 ? share / rows : kNoFigure;
}

// Sum of H over sum of ln n, over all rows with two keys or more.
double predicted_norm(NormalEntropies& entropies, const std::vector<double>& deviations,
                      const std::vector<std::int64_t>& keys) {
  double sum = 0, logs = 0;
  for (std::size_t row = 0; row < deviations.size(); ++row) {
    const std::int64_t n = keys[row % keys.size()];
    if (n < 2) continue;
    if (!(deviations[row] <= NormalEntropies::kMost)) return kNoFigure;
    sum += entropies.nats(deviations[row], n);
    logs += std::log(static_cast<double>(n));
  }
  return logs > 0 ? sum / logs : kNoFigure;
}

void add_attention(LayerAtInit& layer, std::span<const HeadStatistics> heads,
                   const TransformerConfig& config, const std::vector<std::int64_t>& keys) {
  HeadStatistics all;
  for (const HeadStatistics& head : heads) all += head;
  layer.entropy_norm = layer.predicted_norm = layer.small_scores_norm = layer.score_std = kNoFigure;
  if (all.rows_valid == 0) return;
  layer.entropy_norm = all.entropy_norm();
  layer.score_std = all.score_std() / std::sqrt(keys.empty() ? 1 : share_within_rows(keys));
  if (!is_plain_softmax(config) || keys.empty()) return;
  const auto longest = static_cast<double>(*std::ranges::max_element(keys));
  layer.small_scores_norm = 1 - layer.score_std * layer.score_std / (2 * std::log(longest));
}

}  // namespace

ModelAtInit study_init(const Transformer& model, const Batch& batch) {
  Probe probe;
  AttentionStatistics statistics = model.make_statistics();
  const BatchGradient gradient = batch_gradient(
      model, batch, {&probe, &probe, statistics.heads() > 0 ? &statistics : nullptr});

  ModelAtInit result;
  result.loss_nats = gradient.loss_nats;
  result.uniform_nats = std::log(static_cast<double>(model.config().vocabulary));
  result.embedding_rms = probe.value(HookPoint::embedding, -1);
  result.embedding_gradient_rms = probe.gradient(HookPoint::embedding, -1);
  const std::vector<std::int64_t> keys = kept_keys(model.config(), batch.time);
  NormalEntropies entropies;
  for (int i = 0; i < static_cast<int>(model.config().n_layer); ++i) {
    LayerAtInit layer;
    layer.stream_rms = probe.value(HookPoint::residual_post, i);
    layer.attention_rms = probe.value(HookPoint::attention_out, i);
    layer.ffn_rms = probe.value(HookPoint::ffn_out, i);
    layer.gradient_rms = probe.gradient(HookPoint::residual_post, i);
    std::span<const HeadStatistics> heads;
    if (statistics.heads() > 0) heads = statistics.layer(i);
    add_attention(layer, heads, model.config(), keys);
    if (is_plain_softmax(model.config()) && !keys.empty())
      layer.predicted_norm = predicted_norm(entropies, probe.deviations(i), keys);
    result.layers.push_back(layer);
  }
  return result;
}

}  // namespace attune
