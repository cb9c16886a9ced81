#pragma once

#include <span>
#include <vector>

#include "attune/nn/hooks.h"

namespace attune {

// Keeps values of forward passes that a Pass with these hooks makes: any points of any layers,
// nothing of the model is touched. Points inside of attention (scores, pattern) select the composed
// attention, and kinds of attention without scores or pattern never come by there.
//
//   Taps taps({HookPoint::pattern, HookPoint::head_output});
//   Pass pass;
//   pass.hooks = &taps;
//   model.logits(tokens, pass);
//   const Array& pattern = taps.at(HookPoint::pattern, 0);  // [batch, heads, query, key]
class Taps final : public Hooks {
 public:
  // Of these layers alone; none: of all.
  explicit Taps(std::vector<HookPoint> points, std::vector<int> layers = {});

  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override;
  [[nodiscard]] bool replaces() const override { return false; }
  [[nodiscard]] bool wants_inside_of_attention(int layer) const override;

  // What came by last. Shapes: HookPoint. Null where nothing did.
  [[nodiscard]] Array find(HookPoint point, int layer) const;
  // Throws UsageError "taps: nothing came by at pattern of layer 0" where there is none.
  [[nodiscard]] const Array& at(HookPoint point, int layer) const;

  struct Value {
    HookPoint point;
    int layer;
    Array value;
  };
  // In the order of the pass.
  [[nodiscard]] std::span<const Value> values() const { return values_; }
  void clear() { values_.clear(); }

 private:
  [[nodiscard]] bool is_wanted(HookPoint point, int layer) const;

  std::vector<HookPoint> points_;
  std::vector<int> layers_;
  std::vector<Value> values_;
};

// Several hooks one after the other: each sees what those before it made. They must outlive it.
class HookChain final : public Hooks {
 public:
  explicit HookChain(std::vector<Hooks*> hooks) : hooks_(std::move(hooks)) {}
  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override;
  [[nodiscard]] bool replaces() const override;
  [[nodiscard]] bool wants_inside_of_attention(int layer) const override;

 private:
  std::vector<Hooks*> hooks_;
};

}  // namespace attune
