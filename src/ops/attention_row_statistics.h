#pragma once

#include <span>

#include "attune/array/array.h"
#include "attune/core/attention_statistics.h"
#include "kernels/attention.h"

namespace attune {

// What composed attention tells the entropy log: adds every query row to the statistics of its
// head.
// scores, pattern: [batch, heads, query, key]; keep [1 or batch, 1 or heads, query, key]. A key
// whose score is -inf counts as not kept.
// sink: its weight [batch, heads, query, 1], or null; it counts as a kept key.
// shares: the weights of a row are no distribution.
void add_row_statistics(const Array& scores, const Array& pattern, const Array& keep,
                        const Array& sink, bool shares, const kernels::AttentionExtents& extents,
                        std::span<HeadStatistics> statistics);

}  // namespace attune
