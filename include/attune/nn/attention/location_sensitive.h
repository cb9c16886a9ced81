#pragma once

#include <cstdint>
#include <string>

#include "attune/nn/attention/additive.h"

namespace attune {

struct LocationSensitiveConfig {
  AdditiveAttentionConfig content{};
  std::int64_t filters = 32;
  std::int64_t width = 31;  // of each filter, in memory entries; odd, so that it has a middle
  bool cumulative = true;   // history is the sum of all earlier weights, else the last ones
};

// One step of a decoder.
struct AlignmentStep {
  Attended attended;  // of one query: [batch, 1, encoder] and [batch, 1, key]
  Var history;        // [batch, key]: for the next step
};

// Location-sensitive attention (Chorowski et al. 2015; with cumulative weights Tacotron 2, Shen et
// al. 2018): additive attention that also sees where it looked before, and so can move on through
// a memory in which the same content stands at several places:
//   f_i = F * history                      filters over the places of the memory
//   e_ij = v^T tanh(W s_i + V h_j + U f_ij + b)
// history is alpha_(i-1), or sum_(k<i) alpha_k where cumulative, and 0 at first. The convolution
// keeps the length: beyond the memory's ends history is 0.
// Parameters: those of AdditiveAttention, with a bias where config.content says so; filter.weight F
// [filters, width], location.weight U [hidden, filters].
class LocationSensitiveAttention final {
 public:
  // Throws ConfigError for an even width.
  LocationSensitiveAttention(const Scope& scope, const LocationSensitiveConfig& config,
                             const InitScheme& init, int layer);

  // V h, once for all steps: [batch, key, hidden].
  [[nodiscard]] Var keys(const Var& memory, const Pass& pass) const {
    return content_.keys(memory, pass);
  }
  // The history before the first step: zeros [batch, key].
  [[nodiscard]] Var start(const Var& memory) const;
  // query: [batch, 1, decoder]. Throws ShapeError for several queries or another history.
  [[nodiscard]] AlignmentStep step(const Var& query, const Var& keys, const Var& memory,
                                   const Var& history, const Pass& pass) const;
  // One step after another: query [batch, steps, decoder] -> [batch, steps, encoder] and weights
  // [batch, steps, key].
  [[nodiscard]] Attended operator()(const Var& query, const Var& memory, const Pass& pass) const;

 private:
  LocationSensitiveConfig config_;
  std::string path_;
  AdditiveAttention content_;
  Linear filter_;
  Linear location_;
};

}  // namespace attune
