#pragma once

#include <cstdint>

#include "attune/ops/attention.h"

namespace attune {

// Keys and values of the tokens that one layer has read, in the form in which attention reads them,
// so that a new token costs its own row and nothing of what was there before: mutable, with room
// for `capacity` tokens; no gradients flow through it.
class KeyValueBuffer final {
 public:
  KeyValueBuffer(std::int64_t batch, std::int64_t capacity, std::int64_t key_width,
                 std::int64_t value_width, DType dtype);

  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t key_width() const { return key_width_; }
  [[nodiscard]] std::int64_t value_width() const { return value_width_; }
  [[nodiscard]] DType dtype() const { return keys_.dtype(); }

  // Writes keys [batch, time, key_width] and values [batch, time, value_width] as the tokens from
  // `first` on. Throws before anything is written: ShapeError for another batch, width or dtype,
  // ValueError beyond the capacity.
  void write(std::int64_t first, const Array& keys, const Array& values);
  // Copies of the first `time` tokens: [batch, time, key_width] and [batch, time, value_width].
  [[nodiscard]] Array copy_keys(std::int64_t time) const;
  [[nodiscard]] Array copy_values(std::int64_t time) const;

 private:
  friend Array attention_over_cache(const Array& query, const KeyValueBuffer& buffer,
                                    std::int64_t time, const Array& bias,
                                    const AttentionOptions& options);
  std::int64_t batch_;
  std::int64_t capacity_;
  std::int64_t key_width_;
  std::int64_t value_width_;
  Array keys_;    // blocks of transposed keys, see kernels/key_value_blocks.h
  Array values_;  // rows
};

// Attention over the first `time` tokens of a buffer, read where they lie: nothing is copied or
// packed.
// query: [batch, query, heads * head_dim], bias: [1 or batch, heads, query, time] or null
//     -> [batch, query, heads * value_dim]
// What attention() gives for the same keys and values; bit for bit where that takes its stored
// form. The form that is asked for plays no part.
[[nodiscard]] Array attention_over_cache(const Array& query, const KeyValueBuffer& buffer,
                                         std::int64_t time, const Array& bias,
                                         const AttentionOptions& options);

}  // namespace attune
