#pragma once

#include "attune/ops/attention.h"
#include "kernels/attention.h"

// What the fused and the textbook attention ask of their arguments.
namespace attune {

// The extents, once everything fits. Throws ShapeError or ValueError with `operation` in front.
[[nodiscard]] kernels::AttentionExtents check_attention(const char* operation, const Var& query,
                                                        const Var& key, const Var& value,
                                                        const Var& bias,
                                                        const AttentionOptions& options);

// options.scale, or 1/sqrt(head_dim) where that is 0.
[[nodiscard]] double attention_scale(const kernels::AttentionExtents& extents,
                                     const AttentionOptions& options);

}  // namespace attune
