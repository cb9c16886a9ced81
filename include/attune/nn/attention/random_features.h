#pragma once

#include <cstdint>
#include <string_view>

#include "attune/core/random.h"
#include "attune/nn/attention/linear.h"

namespace attune {

// Positive orthogonal random features of the softmax kernel (FAVOR+, Choromanski et al. 2021,
// section 2): with w_r normal in head_dim dimensions and x scaled by sqrt(scale),
//   phi_r(x) = e^(w_r . x - |x|^2 / 2) / sqrt(features)      E phi(q) . phi(k) = e^(scale q . k)
// so that linear attention with them approximates softmax attention, with an error that falls as
// features^-1/2 and grows with e^(|q + k|^2 scale). The w_r are orthogonal in groups of head_dim,
// with the lengths of normal vectors: still unbiased, with less variance. They are drawn once and
// not learned. Queries' features are relative to the largest of each query, which cancels in the
// ratio. Keys' features are not: they vanish in float32 where |k|^2 scale / 2 is beyond 80, sharper
// than the features can follow.
class RandomFeatures final : public FeatureMap {
 public:
  // scale: factor on q . k; 0: 1/sqrt(head_dim). The stream gives the w_r.
  RandomFeatures(std::int64_t features, std::int64_t head_dim, double scale, DType dtype,
                 const RandomStream& stream);

  [[nodiscard]] Var of_queries(const Var& query) const override;
  [[nodiscard]] Var of_keys(const Var& key) const override;
  // The w_r as rows: [features, head_dim].
  [[nodiscard]] const Array& directions() const { return directions_; }

 private:
  [[nodiscard]] Var exponents(const Var& x) const;

  double root_scale_;  // factor on queries and on keys
  double norm_;        // 1 / sqrt(features)
  Array directions_;
};

}  // namespace attune
