#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "kernels/attention.h"

// Keys and values of a key-value cache as right operands of small_gemm.h: what is written once, a
// token at a time, is read by every later token without being packed.
namespace attune::kernels {

// Tokens of a block of keys. A multiple of every panel.
inline constexpr std::int64_t kBlockTokens = 64;

// keys:   [batch, blocks, width, kBlockTokens], blocks of transposed keys: a token is a column. A
//         head reads the rows of its features, a contiguous piece of each block.
// values: [batch, capacity, width], and one panel of slack at the end: the last head's rows are
//         read in whole panels.
template <class T>
struct KeyValueBlocks {
  T* keys = nullptr;
  T* values = nullptr;
  std::int64_t capacity = 0;
  std::int64_t key_width = 0;
  std::int64_t value_width = 0;

  [[nodiscard]] static std::int64_t blocks(std::int64_t tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }
  // Features of a token are kBlockTokens apart; tokens of a block lie side by side.
  [[nodiscard]] T* key(std::int64_t example, std::int64_t token, std::int64_t feature) const {
    const std::int64_t block = example * blocks(capacity) + token / kBlockTokens;
    return keys + (block * key_width + feature) * kBlockTokens + token % kBlockTokens;
  }
  [[nodiscard]] T* value(std::int64_t example, std::int64_t token, std::int64_t feature) const {
    return values + (example * capacity + token) * value_width + feature;
  }
};

// Elements of the two buffers.
[[nodiscard]] std::int64_t count_key_elements(std::int64_t batch, std::int64_t capacity,
                                              std::int64_t width);
template <std::floating_point T>
[[nodiscard]] std::int64_t count_value_elements(std::int64_t batch, std::int64_t capacity,
                                                std::int64_t width);

// keys: [batch, time, key_width], values: [batch, time, value_width] <-> the tokens [first, first +
// time) of each example.
template <std::floating_point T>
void write_tokens(std::int64_t batch, std::int64_t first, std::int64_t time, const T* keys,
                  const T* values, const KeyValueBlocks<T>& blocks);
template <std::floating_point T>
void read_keys(const KeyValueBlocks<const T>& blocks, std::int64_t batch, std::int64_t time,
               T* keys);
template <std::floating_point T>
void read_values(const KeyValueBlocks<const T>& blocks, std::int64_t batch, std::int64_t time,
                 T* values);

// The forward pass of kernels/attention.h over the first extents.key tokens of a cache;
// operands.key and operands.value are not read. Values that no query row of a tile keeps are
// skipped.
template <std::floating_point T>
void attention_over_blocks(const AttentionOperands<T>& operands,
                           const KeyValueBlocks<const T>& blocks, HeadRows<T> output,
                           std::span<HeadStatistics> statistics);

}  // namespace attune::kernels
