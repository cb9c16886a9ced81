#include "attune/nn/positional_encoding.h"

#include <algorithm>
#include <utility>

#include "attune/nn/kv_cache.h"
#include "attune/ops/arithmetic.h"

namespace attune {

Var PositionalEncoding::embed(const Var& x, const Positions& positions, const Pass& pass) const {
  const EmbeddingTerm term = embedding_term(positions, pass);
  const Var scaled = term.scale == 1 ? x : x * term.scale;
  return term.added.is_null() ? scaled : scaled + term.added;
}

Positions PositionContext::key() const {
  return cache ? cache->positions().followed_by(new_key) : new_key;
}

PositionContext::Distances PositionContext::distances() const {
  Positions keys = key();
  if (query.values.empty() || keys.values.empty()) return {std::move(keys), 0, 0};
  const auto [query_low, query_high] = std::ranges::minmax(query.values);
  const auto [key_low, key_high] = std::ranges::minmax(keys.values);
  const std::int64_t first = std::int64_t{key_low} - query_high;
  const std::int64_t last = std::int64_t{key_high} - query_low;
  return {std::move(keys), first, last - first + 1};
}

Columns PositionContext::clipped_distances(std::int64_t low, std::int64_t high) const {
  const Positions keys = key();
  const std::int64_t rows = std::max(query.batch, keys.batch);
  Columns columns{{rows, 1, query.time, keys.time}, {}};
  columns.values.reserve(static_cast<std::size_t>(columns.shape.size()));
  for (std::int64_t b = 0; b < rows; ++b) {
    for (std::int64_t i = 0; i < query.time; ++i) {
      for (std::int64_t j = 0; j < keys.time; ++j) {
        const std::int64_t distance = std::int64_t{keys.row(b)[j]} - query.row(b)[i];
        columns.values.push_back(static_cast<std::int32_t>(std::clamp(distance, low, high) - low));
      }
    }
  }
  return columns;
}

}  // namespace attune
