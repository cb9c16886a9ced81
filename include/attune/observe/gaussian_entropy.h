#pragma once

#include <cstdint>
#include <vector>

namespace attune {

// The entropy that softmax attention has before training: what a query row keeps on average if its
// n scores are independent and normal with standard deviation s. Exact, by two integrals of
// phi(t) = E exp(-t e^x), x ~ N(0, s^2):
//   E H = E ln Z - s^2 + s^2 n E p^2                      (Stein's identity for E sum p x)
//   E ln Z = int_0^inf (e^-t - phi(t)^n) / t dt           (Frullani)
//   E p^2 = int_0^inf t phi(t)^(n-1) E[e^2x exp(-t e^x)] dt
// For small s it is ln n - s^2 / 2, so that H / ln n = 1 - s^2 / (2 ln n); beyond s about
// sqrt(2 ln n) a few keys hold all weight (the random energy model, Derrida 1981).
class GaussianEntropy final {
 public:
  // Throws ValueError for s below 0, above 50 or not finite.
  explicit GaussianEntropy(double score_std);

  // Of a row with so many keys, in nats. Throws ValueError below one key.
  [[nodiscard]] double nats(std::int64_t keys) const;

 private:
  double variance_;
  // At the nodes t = e^u of the trapezoid rule over u:
  std::vector<double> t_;
  std::vector<double> log_phi_;
  std::vector<double> second_moment_;  // t^2 E[e^2x exp(-t e^x)]
};

}  // namespace attune
