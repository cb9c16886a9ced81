#include "attune/nn/attention/external_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attune/core/error.h"
#include "attune/ops/matmul.h"
#include "attune/ops/select.h"
#include "attune/ops/shaping.h"
#include "nn/attention/parts.h"
#include "nn/attention/top_indices.h"

namespace attune {

ExternalMemory::ExternalMemory(std::int64_t heads, std::int64_t key_dim, std::int64_t value_dim,
                               DType dtype)
    : heads_(heads), key_dim_(key_dim), value_dim_(value_dim) {
  if (heads < 1 || key_dim < 1 || value_dim < 1) {
    throw ConfigError(
        fmt::format("external memory: {} heads, keys of width {}, values of width {}, expected 1 "
                    "or more of each",
                    heads, key_dim, value_dim));
  }
  keys_ = Array::zeros({0, heads * key_dim}, dtype);
  values_ = Array::zeros({0, heads * value_dim}, dtype);
}

void ExternalMemory::add(const Array& keys, const Array& values) {
  const std::int64_t count = keys.shape().rank() == 2 ? keys.shape()[0] : 0;
  if (keys.shape() != Shape{count, heads_ * key_dim_} ||
      values.shape() != Shape{count, heads_ * value_dim_} || keys.dtype() != keys_.dtype() ||
      values.dtype() != keys_.dtype()) {
    throw ShapeError(fmt::format(
        "external memory: keys {} and values {}, expected [count, {}] and [count, {}] of {}",
        to_string(keys.shape()), to_string(values.shape()), heads_ * key_dim_, heads_ * value_dim_,
        to_string(keys_.dtype())));
  }
  keys_ = concat({Var(keys_), Var(keys)}, 0).value();
  values_ = concat({Var(values_), Var(values)}, 0).value();
  entries_ += count;
}

void ExternalMemory::clear() {
  *this = ExternalMemory(heads_, key_dim_, value_dim_, keys_.dtype());
}

// The search is off the tape; then every query has a memory of its own, of the entries it found,
// and is an example with one query.
Var ExternalMemory::operator()(const Var& query, const Search& search, const Pass& pass) const {
  attention_parts::expect_width("external memory", "query", query, heads_ * key_dim_);
  if (search.top < 1) {
    throw ValueError("external memory: top " + std::to_string(search.top) +
                     " entries, expected 1 or more");
  }
  const std::int64_t batch = query.shape()[0], time = query.shape()[1];
  const std::int64_t top = std::min(search.top, entries_);
  const Var asked = split_heads(query.detached(), heads_);  // [batch, heads, time, key_dim]
  const Var stored = split_heads(reshape(Var(keys_), {1, entries_, heads_ * key_dim_}), heads_);
  const Array scores = matmul(asked, stored, Transpose::no, Transpose::yes).value();

  std::vector<std::int32_t> found(static_cast<std::size_t>(batch * time * top * heads_));
  std::int64_t row = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads_; ++h)
      for (std::int64_t i = 0; i < time; ++i, ++row) {
        const std::vector<std::int32_t> entries = top_indices(scores, row, top);
        for (std::int64_t r = 0; r < top; ++r) {
          const std::int64_t at = ((b * time + i) * top + r) * heads_ + h;
          found[static_cast<std::size_t>(at)] =
              static_cast<std::int32_t>(entries[static_cast<std::size_t>(r)] * heads_ + h);
        }
      }

  const auto gathered = [&](const Array& table, std::int64_t width) {
    const Var rows = gather_rows(reshape(Var(table), {entries_ * heads_, width}), found,
                                 {batch * time, top, heads_});
    return reshape(rows, {batch * time, top, heads_ * width});
  };
  AttentionOptions options = attention_parts::options_of(pass, heads_, search.layer);
  options.scale = search.scale;
  const Var mixed =
      attention(reshape(query, {batch * time, 1, heads_ * key_dim_}), gathered(keys_, key_dim_),
                gathered(values_, value_dim_), {}, options);
  return reshape(mixed, {batch, time, heads_ * value_dim_});
}

}  // namespace attune
