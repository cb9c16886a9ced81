#pragma once

#include <cmath>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "attune/nn/positional_encoding.h"

// The makers of the registered schemes; each is defined in the file of its scheme.
namespace attune::positional {

// The factor on the scores that the encoding's own terms share.
[[nodiscard]] inline double score_scale(const PositionalConfig& config) {
  if (config.score_scale != 0) return config.score_scale;
  return 1 / std::sqrt(static_cast<double>(config.head_dim));
}

// Positions whose numbers, `width` each, an encoding keeps at hand: those of the context, up to
// 2^24 numbers in all. A context is a word in a file and costs nothing there; positions beyond the
// table are computed where they are met.
[[nodiscard]] inline std::int64_t tabulated_positions(std::int64_t block_size, std::int64_t width) {
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 24;
  return std::min(block_size, kMostNumbers / std::max<std::int64_t>(width, 1));
}

using Maker = std::unique_ptr<PositionalEncoding> (*)(const Scope&, const PositionalConfig&,
                                                      const InitScheme&);

std::unique_ptr<PositionalEncoding> make_none(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_learned(const Scope&, const PositionalConfig&,
                                                 const InitScheme&);
std::unique_ptr<PositionalEncoding> make_sinusoidal(const Scope&, const PositionalConfig&,
                                                    const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope_interleaved(const Scope&, const PositionalConfig&,
                                                          const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope_partial(const Scope&, const PositionalConfig&,
                                                      const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope_pi(const Scope&, const PositionalConfig&,
                                                 const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope_ntk(const Scope&, const PositionalConfig&,
                                                  const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope_dynamic_ntk(const Scope&, const PositionalConfig&,
                                                          const InitScheme&);
std::unique_ptr<PositionalEncoding> make_xpos(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_alibi(const Scope&, const PositionalConfig&,
                                               const InitScheme&);
std::unique_ptr<PositionalEncoding> make_t5(const Scope&, const PositionalConfig&,
                                            const InitScheme&);
std::unique_ptr<PositionalEncoding> make_kerple(const Scope&, const PositionalConfig&,
                                                const InitScheme&);
std::unique_ptr<PositionalEncoding> make_kerple_power(const Scope&, const PositionalConfig&,
                                                      const InitScheme&);
std::unique_ptr<PositionalEncoding> make_fire(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_shaw(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_transformer_xl(const Scope&, const PositionalConfig&,
                                                        const InitScheme&);
std::unique_ptr<PositionalEncoding> make_cope(const Scope&, const PositionalConfig&,
                                              const InitScheme&);

}  // namespace attune::positional
