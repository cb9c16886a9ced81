#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attune/nn/positional_encoding.h"

// What rotary encodings share.
namespace attune::positional {

// The rotations of positions: pair k of features at position p turns by the angle p frequency_k and
// grows by the factor e^(p growth_k). Computed in float64, rounded once.
class RotationTable final {
 public:
  struct Pair {
    double frequency;
    double growth = 0;
  };
  // Positions in [0, known) are looked up, all others computed when asked for.
  RotationTable(DType dtype, std::vector<Pair> pairs, std::int64_t known);

  [[nodiscard]] Rotation operator()(const Positions& positions) const;

 private:
  DType dtype_;
  std::vector<Pair> pairs_;  // [rotated / 2]
  Rotation known_;
};

// RoPE's own base (Su et al. 2021, section 3.2.2, after Vaswani et al. 2017).
inline constexpr double kRotaryBase = 10000;

// Frequencies base^(-2k / width) / stretch for k = 0 .. width / 2 - 1.
[[nodiscard]] std::vector<RotationTable::Pair> rotary_pairs(std::int64_t width, double base,
                                                            double stretch = 1);

// The base that slows the slowest pair down by `extension` and leaves the fastest as it is
// ("NTK-aware" scaling; Peng et al. 2023, YaRN, section 3.1): 10000 extension^(width / (width -
// 2)).
[[nodiscard]] double stretched_base(std::int64_t width, double extension);

// Throws ConfigError for an odd width: pairs take two features.
void require_even_head(std::string_view scheme, std::int64_t head_dim);

}  // namespace attune::positional
