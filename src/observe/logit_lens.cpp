#include "attune/observe/logit_lens.h"

#include "attune/observe/taps.h"

namespace attune {
namespace {

// Puts one value in the place of the stream behind the last block, so that the model's own norm
// and head read it.
class LastStream final : public Hooks {
 public:
  LastStream(int last, Array stream) : last_(last), stream_(std::move(stream)) {}
  [[nodiscard]] Var at(HookPoint point, int layer, const Var& x) override {
    return point == HookPoint::residual_post && layer == last_ ? Var(stream_) : x;
  }

 private:
  int last_;
  Array stream_;
};

}  // namespace

std::vector<LensRow> logit_lens(const Transformer& model, const TokenBatch& batch,
                                std::span<const std::int32_t> targets) {
  const int layers = static_cast<int>(model.config().n_layer);
  Taps taps({HookPoint::residual_pre, HookPoint::residual_post});
  Pass pass;
  pass.hooks = &taps;
  static_cast<void>(model.hidden(batch, pass));

  std::vector<LensRow> rows;
  for (int layer = -1; layer < layers; ++layer) {
    LastStream stream(layers - 1, layer < 0 ? taps.at(HookPoint::residual_pre, 0)
                                            : taps.at(HookPoint::residual_post, layer));
    pass.hooks = &stream;
    const CrossEntropy loss = model.loss(batch, targets, pass);
    rows.push_back({layer, loss.nats, loss.scored, loss.correct});
  }
  return rows;
}

}  // namespace attune
