#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attune/model/transformer.h"
#include "attune/observe/taps.h"

// Changes to a forward pass that say what a part of a model does: take it out, or give it what it
// would hold for another input. Hooks without a state that a pass changes: several threads may use
// one.
namespace attune {

struct HeadRef {
  int layer = 0;
  int head = 0;
  [[nodiscard]] friend bool operator==(const HeadRef&, const HeadRef&) = default;
};
// Every head of every layer. Throws ValueError for one that the model does not have.
[[nodiscard]] std::vector<HeadRef> all_heads(const Transformer& model);
void check_head(const Transformer& model, const HeadRef& head);

// Takes heads out: what they hand to the output map (HookPoint::head_output) becomes zero, or a
// mean, which leaves what they always say and takes what depends on the input.
class HeadAblation final : public Hooks {
 public:
  HeadAblation(const Transformer& model, std::span<const HeadRef> heads);
  // means: one array [heads * value_dim] a layer, of mean_head_outputs()
  HeadAblation(const Transformer& model, std::span<const HeadRef> heads, std::vector<Array> means);
  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override;

 private:
  std::int64_t heads_;
  std::vector<std::vector<std::uint8_t>> taken_;  // [layer][head]
  std::vector<Array> means_;                      // none: zero
};
// Means over all examples and positions of a batch, for each layer: [heads * value_dim].
[[nodiscard]] std::vector<Array> mean_head_outputs(const Transformer& model,
                                                   const TokenBatch& batch);

// A place to patch: a point of a layer, at all positions or one, in all heads or one. With a
// position, scores and patterns are patched in that query's row. A head is one of query, key,
// value (heads of keys and values are n_kv_head), scores, pattern or head_output.
struct PatchSite {
  HookPoint point = HookPoint::residual_post;
  int layer = 0;
  std::int64_t position = -1;  // -1: all
  int head = -1;               // -1: all
};

// Activation patching (Vig et al. 2020; Meng et al. 2022): puts what another pass held at some
// sites into this one.
class ActivationPatch final : public Hooks {
 public:
  // `source` kept the values of the other pass and must outlive this; both passes have inputs of
  // one shape. Throws ValueError for a site that the model does not have.
  ActivationPatch(const Transformer& model, const Taps& source, std::vector<PatchSite> sites);
  // Throws ShapeError where the source's value has another shape.
  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override;
  [[nodiscard]] bool wants_inside_of_attention(int layer) const override;

 private:
  std::int64_t heads_;
  std::int64_t kv_heads_;
  const Taps& source_;
  std::vector<PatchSite> sites_;
};

// What is asked of the logits [batch, time, vocabulary]: a loss, or a difference of two logits.
using LogitMetric = std::function<double(const Var& logits)>;

// Cross entropy at the targets [batch, time], a mean over those that are not kIgnore.
[[nodiscard]] LogitMetric loss_metric(std::vector<std::int32_t> targets);
// logit of `right` less that of `wrong` at a position of the first example.
[[nodiscard]] LogitMetric logit_difference_metric(std::int64_t position, std::int32_t right,
                                                  std::int32_t wrong);

// What each patch of a sweep gives back of what was lost by corrupting the input.
struct PatchSweep {
  double clean = 0;             // the metric of the clean input
  double corrupted = 0;         // of the corrupted one
  std::vector<double> patched;  // of the corrupted one with one site of the clean one
  // (patched - corrupted) / (clean - corrupted): 1 all of it, 0 nothing. NaN where clean and
  // corrupted do not differ.
  [[nodiscard]] double recovered(std::size_t site) const {
    return (patched[site] - corrupted) / (clean - corrupted);
  }
};
// One pass of the clean input and one of the corrupted input for each site. Throws ShapeError where
// the inputs differ in shape.
[[nodiscard]] PatchSweep patch_sweep(const Transformer& model, const TokenBatch& clean,
                                     const TokenBatch& corrupted, const LogitMetric& metric,
                                     std::span<const PatchSite> sites);

}  // namespace attune
