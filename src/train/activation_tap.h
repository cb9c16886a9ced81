#pragma once

#include "attune/train/activation_statistics.h"

namespace attune {

// Measures a forward pass where the stream, what is added to it, and the hidden units of the
// feed-forward layers are; changes no bit of it. Attention stays fused: nothing inside it is asked
// for. Must not outlive the statistics, nor be shared by threads.
class ActivationTap final : public Hooks {
 public:
  explicit ActivationTap(ActivationStatistics& statistics) : statistics_(statistics) {}
  Var at(HookPoint point, int layer, const Var& x) override {
    if (is_watched(point)) statistics_.add(point, layer, x.value());
    return x;
  }
  [[nodiscard]] bool replaces() const override { return false; }

 private:
  static bool is_watched(HookPoint point) {
    switch (point) {
      case HookPoint::residual_pre:
      case HookPoint::attention_out:
      case HookPoint::residual_mid:
      case HookPoint::ffn_hidden:
      case HookPoint::ffn_out:
      case HookPoint::residual_post:
      case HookPoint::final:
        return true;
      default:
        return false;
    }
  }

  ActivationStatistics& statistics_;
};

}  // namespace attune
