#include "attune/observe/interventions.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/ops/loss.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "core/index.h"

namespace attune {
namespace {

// 1 where an axis of `extent` is at `chosen`, or everywhere for -1; of groups of `width` elements.
std::vector<double> flags(std::int64_t extent, std::int64_t width, std::int64_t chosen) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < extent; ++i)
    result.insert(result.end(), index(width), chosen < 0 || i == chosen ? 1.0 : 0.0);
  return result;
}

Array outer(const std::vector<double>& a, const std::vector<double>& b, const Shape& shape,
            DType dtype) {
  std::vector<double> result;
  result.reserve(a.size() * b.size());
  for (const double x : a)
    for (const double y : b) result.push_back(x * y);
  return Array::from(shape, result, dtype);
}

bool has_heads(HookPoint point) {
  constexpr HookPoint kOfHeads[] = {HookPoint::query,  HookPoint::key,     HookPoint::value,
                                    HookPoint::scores, HookPoint::pattern, HookPoint::head_output};
  return std::ranges::find(kOfHeads, point) != std::end(kOfHeads);
}

bool is_inside(HookPoint point) {
  return point == HookPoint::scores || point == HookPoint::pattern;
}

std::int64_t heads_at(HookPoint point, std::int64_t heads, std::int64_t kv_heads) {
  return point == HookPoint::key || point == HookPoint::value ? kv_heads : heads;
}

void check_site(const Transformer& model, const PatchSite& site) {
  const TransformerConfig& config = model.config();
  const std::int64_t heads = heads_at(site.point, config.n_head, config.n_kv_head);
  const bool fits = site.head < heads && (site.head < 0 || has_heads(site.point));
  const bool is_edge = site.point == HookPoint::embedding || site.point == HookPoint::final;
  if (fits && (is_edge || (site.layer >= 0 && site.layer < config.n_layer))) return;
  throw ValueError(fmt::format(
      "patch: there is no {} of layer {}, head {} (layers 0 to {}{})", to_string(site.point),
      site.layer, site.head, config.n_layer - 1,
      has_heads(site.point) ? fmt::format(", heads 0 to {}", heads - 1) : ", no heads"));
}

}  // namespace

std::vector<HeadRef> all_heads(const Transformer& model) {
  std::vector<HeadRef> heads;
  for (int layer = 0; layer < model.config().n_layer; ++layer)
    for (int head = 0; head < model.config().n_head; ++head) heads.push_back({layer, head});
  return heads;
}

void check_head(const Transformer& model, const HeadRef& head) {
  const TransformerConfig& config = model.config();
  if (head.layer >= 0 && head.layer < config.n_layer && head.head >= 0 && head.head < config.n_head)
    return;
  throw ValueError(
      fmt::format("head {} of layer {}: the model has layers 0 to {} with heads 0 to {}", head.head,
                  head.layer, config.n_layer - 1, config.n_head - 1));
}

HeadAblation::HeadAblation(const Transformer& model, std::span<const HeadRef> heads)
    : heads_(model.config().n_head),
      taken_(index(model.config().n_layer), std::vector<std::uint8_t>(index(heads_))) {
  for (const HeadRef& head : heads) {
    check_head(model, head);
    taken_[index(head.layer)][index(head.head)] = 1;
  }
}

HeadAblation::HeadAblation(const Transformer& model, std::span<const HeadRef> heads,
                           std::vector<Array> means)
    : HeadAblation(model, heads) {
  means_ = std::move(means);
  if (means_.size() != taken_.size())
    throw ValueError(fmt::format("ablation: means of {} layers for a model of {}", means_.size(),
                                 taken_.size()));
}

Var HeadAblation::at(HookPoint point, int layer, const Var& x) {
  if (point != HookPoint::head_output) return x;
  const std::vector<std::uint8_t>& taken = taken_[index(layer)];
  if (std::ranges::find(taken, 1) == taken.end()) return x;
  const std::int64_t width = x.shape().last();
  std::vector<double> condition;
  for (const std::uint8_t one : taken)
    condition.insert(condition.end(), index(width / heads_), one);
  const Array is_taken = Array::from({width}, condition, x.dtype());
  const Array fill = means_.empty() ? Array::zeros({width}, x.dtype()) : means_[index(layer)];
  return where(is_taken, Var(fill), x);
}

std::vector<Array> mean_head_outputs(const Transformer& model, const TokenBatch& batch) {
  Taps taps({HookPoint::head_output});
  Pass pass;
  pass.hooks = &taps;
  static_cast<void>(model.hidden(batch, pass));
  std::vector<Array> means;
  for (int layer = 0; layer < model.config().n_layer; ++layer) {
    const Array& outputs = taps.at(HookPoint::head_output, layer);
    const std::vector<double> values = outputs.to_vector();
    std::vector<double> sum(index(outputs.shape().last()));
    for (std::size_t i = 0; i < values.size(); ++i) sum[i % sum.size()] += values[i];
    const auto rows = static_cast<double>(outputs.shape().rows());
    for (double& one : sum) one /= rows;
    means.push_back(Array::from({outputs.shape().last()}, sum, outputs.dtype()));
  }
  return means;
}

ActivationPatch::ActivationPatch(const Transformer& model, const Taps& source,
                                 std::vector<PatchSite> sites)
    : heads_(model.config().n_head),
      kv_heads_(model.config().n_kv_head),
      source_(source),
      sites_(std::move(sites)) {
  for (const PatchSite& site : sites_) check_site(model, site);
}

Var ActivationPatch::at(HookPoint point, int layer, const Var& x) {
  Var y = x;
  for (const PatchSite& site : sites_) {
    if (site.point != point || site.layer != layer) continue;
    const Array& other = source_.at(point, layer);
    const Shape& shape = x.shape();
    if (other.shape() != shape || other.dtype() != x.dtype())
      throw ShapeError(fmt::format("patch at {} of layer {}: {} does not go into {}",
                                   to_string(point), layer, to_string(other.shape()),
                                   to_string(shape)));
    const auto chosen =
        is_inside(point)
            ? outer(flags(shape[1], 1, site.head), flags(shape[2], 1, site.position),
                    {1, shape[1], shape[2], 1}, x.dtype())
            : outer(flags(shape[1], 1, site.position),
                    site.head < 0 ? std::vector<double>{1}
                                  : flags(heads_at(point, heads_, kv_heads_),
                                          shape[2] / heads_at(point, heads_, kv_heads_), site.head),
                    {1, shape[1], site.head < 0 ? 1 : shape[2]}, x.dtype());
    y = where(chosen, Var(other), y);
  }
  return y;
}

bool ActivationPatch::wants_inside_of_attention(int layer) const {
  return std::ranges::any_of(sites_, [layer](const PatchSite& site) {
    return site.layer == layer && is_inside(site.point);
  });
}

LogitMetric loss_metric(std::vector<std::int32_t> targets) {
  return [targets = std::move(targets)](const Var& logits) {
    const CrossEntropy loss = cross_entropy(reshape(logits, {-1, logits.shape().last()}), targets);
    return loss.scored ? loss.nats / static_cast<double>(loss.scored) : 0;
  };
}

LogitMetric logit_difference_metric(std::int64_t position, std::int32_t right, std::int32_t wrong) {
  return [=](const Var& logits) {
    return logits.value().at({0, position, right}) - logits.value().at({0, position, wrong});
  };
}

PatchSweep patch_sweep(const Transformer& model, const TokenBatch& clean,
                       const TokenBatch& corrupted, const LogitMetric& metric,
                       std::span<const PatchSite> sites) {
  if (clean.batch != corrupted.batch || clean.time != corrupted.time)
    throw ShapeError(
        fmt::format("patch: a clean input of [{}, {}] tokens, a corrupted one of [{}, {}]",
                    clean.batch, clean.time, corrupted.batch, corrupted.time));
  std::vector<HookPoint> points;
  for (const PatchSite& site : sites) points.push_back(site.point);
  Taps source(std::move(points));
  const auto measure = [&](const TokenBatch& tokens, Hooks* hooks) {
    Pass pass;
    pass.hooks = hooks;
    return metric(model.logits(tokens, pass));
  };
  PatchSweep sweep;
  sweep.clean = measure(clean, &source);
  sweep.corrupted = measure(corrupted, nullptr);
  for (const PatchSite& site : sites) {
    ActivationPatch patch(model, source, {site});
    sweep.patched.push_back(measure(corrupted, &patch));
  }
  return sweep;
}

}  // namespace attune
