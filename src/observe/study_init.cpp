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

namespace attune {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Place = std::pair<HookPoint, int>;

// RMS of every hooked value, and of the gradient that comes back to it.
class Probe final : public Hooks, public GradientObserver {
 public:
  Var at(HookPoint point, int layer, const Var& x) override {
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
  [[nodiscard]] double gradient(HookPoint point, int layer) const {
    return find(gradients_, point, layer);
  }

 private:
  static double find(const std::map<Place, double>& of, HookPoint point, int layer) {
    const auto found = of.find({point, layer});
    return found == of.end() ? kNone : found->second;
  }
  std::map<std::int32_t, std::vector<Place>> places_;  // by slot
  std::map<Place, double> values_;
  std::map<Place, double> gradients_;
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
  return rows > 0 ? share / rows : kNone;
}

double predicted_sum(double score_std, const std::vector<std::int64_t>& keys) {
  if (!(score_std <= 50)) return kNone;
  const GaussianEntropy entropy(score_std);
  std::map<std::int64_t, double> known;
  double sum = 0;
  for (const std::int64_t n : keys) {
    if (n < 2) continue;
    const auto [place, is_new] = known.emplace(n, 0);
    if (is_new) place->second = entropy.nats(n);
    sum += place->second;
  }
  return sum;
}

void add_attention(LayerAtInit& layer, std::span<const HeadStatistics> heads,
                   const TransformerConfig& config, const std::vector<std::int64_t>& keys) {
  HeadStatistics all;
  for (const HeadStatistics& head : heads) all += head;
  layer.entropy_norm = layer.predicted_norm = layer.small_scores_norm = layer.score_std = kNone;
  if (all.rows_valid == 0) return;
  layer.entropy_norm = all.entropy_norm();
  const double share = keys.empty() ? 1 : share_within_rows(keys);
  layer.score_std = all.score_std() / std::sqrt(share);
  if (!is_plain_softmax(config) || keys.empty()) return;

  double log_keys = 0, predicted = 0;
  for (const std::int64_t n : keys) {
    if (n >= 2) log_keys += std::log(static_cast<double>(n));
  }
  for (const HeadStatistics& head : heads)
    predicted += predicted_sum(head.score_std() / std::sqrt(share), keys);
  layer.predicted_norm = predicted / (log_keys * static_cast<double>(heads.size()));
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
  for (int i = 0; i < static_cast<int>(model.config().n_layer); ++i) {
    LayerAtInit layer;
    layer.stream_rms = probe.value(HookPoint::residual_post, i);
    layer.attention_rms = probe.value(HookPoint::attention_out, i);
    layer.ffn_rms = probe.value(HookPoint::ffn_out, i);
    layer.gradient_rms = probe.gradient(HookPoint::residual_post, i);
    std::span<const HeadStatistics> heads;
    if (statistics.heads() > 0) heads = statistics.layer(i);
    add_attention(layer, heads, model.config(), keys);
    result.layers.push_back(layer);
  }
  return result;
}

}  // namespace attune
