#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attune/core/attention_statistics.h"
#include "attune/model/transformer.h"

namespace attune {

// What every head of a model attends to while it reads one input: its weights after the softmax,
// before dropout and before heads mix them. (AttentionMaps is the name of the linear maps of a
// layer.)
struct AttentionPatterns {
  std::vector<std::int32_t> tokens;  // [key]
  std::int64_t layers = 0;
  std::int64_t heads = 0;         // distributions of a layer: differential attention has two a head
  std::int64_t query = 0;         // tokens
  std::int64_t key = 0;           // as many
  std::vector<double> weights;    // [layers, heads, query, key]; 0 where the mask drops a key
  std::vector<double> entropies;  // [layers, heads, query], nats; of the shares w / sum w where the
                                  // weights are no distribution; a sink counts as a key
  AttentionStatistics statistics;  // of each head over its queries, as in the logs
  // Why there are none, in one line that names the kind of attention; empty: there are.
  std::string missing;

  [[nodiscard]] double weight(std::int64_t layer, std::int64_t head, std::int64_t i,
                              std::int64_t j) const {
    return weights[static_cast<std::size_t>(((layer * heads + head) * query + i) * key + j)];
  }
  // [query, key]
  [[nodiscard]] std::span<const double> map(std::int64_t layer, std::int64_t head) const {
    return std::span(weights).subspan(
        static_cast<std::size_t>((layer * heads + head) * query * key),
        static_cast<std::size_t>(query * key));
  }
};

// One forward pass without dropout; `hooks` sees it first and may change it. Throws ValueError
// where there is no token, one outside the vocabulary, or more of them than the model has
// positions for.
[[nodiscard]] AttentionPatterns attention_patterns(const Transformer& model,
                                                   std::span<const std::int32_t> tokens,
                                                   Hooks* hooks = nullptr);

}  // namespace attune
