#include "attune/observe/expert_load.h"

#include <algorithm>
#include <cmath>

#include "attune/observe/taps.h"

namespace attune {
namespace {

// router: [batch, time, experts]
void add_tokens(const Array& router, ExpertLoad& load) {
  const auto experts = static_cast<std::ptrdiff_t>(router.shape().last());
  load.shares.resize(static_cast<std::size_t>(experts));
  load.probabilities.resize(static_cast<std::size_t>(experts));
  const std::vector<double> p = router.to_vector();
  for (auto token = p.begin(); token != p.end(); token += experts) {
    ++load.shares[static_cast<std::size_t>(std::max_element(token, token + experts) - token)];
    std::transform(token, token + experts, load.probabilities.begin(), load.probabilities.begin(),
                   [](double one, double sum) { return sum + one; });
  }
}

}  // namespace

double ExpertLoad::variation() const {
  const double mean = 1 / static_cast<double>(shares.size());
  double squares = 0;
  for (const double share : shares) squares += (share - mean) * (share - mean);
  return std::sqrt(squares * mean) / mean;
}

std::vector<ExpertLoad> expert_loads(const Transformer& model, std::span<const Batch> batches) {
  if (model.config().attention != "mixture") return {};
  std::vector<ExpertLoad> loads(static_cast<std::size_t>(model.config().n_layer));
  double tokens = 0;
  for (const Batch& batch : batches) {
    Taps taps({HookPoint::router});
    Pass pass;
    pass.hooks = &taps;
    static_cast<void>(model.hidden({batch.tokens, batch.examples, batch.time}, pass));
    for (std::size_t layer = 0; layer < loads.size(); ++layer)
      add_tokens(taps.at(HookPoint::router, static_cast<int>(layer)), loads[layer]);
    tokens += static_cast<double>(batch.examples * batch.time);
  }
  for (ExpertLoad& load : loads) {
    for (double& share : load.shares) share /= tokens;
    for (double& probability : load.probabilities) probability /= tokens;
  }
  return loads;
}

}  // namespace attune
