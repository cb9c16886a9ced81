#pragma once

#include <cstdint>
#include <span>

namespace attune {

// A sparse pattern of attention: which keys j the query at place p keeps, as a function of the two
// places among the keys alone, so that a pattern means the same in one pass, in chunks and token by
// token. What any of its parts keeps is kept:
//
// - window: |p - j| = 0, d, 2d, ..., (window - 1) d with d = dilation (Longformer, Beltagy et al.
//   2020).
// - globals: j or p is among the first `globals` places, which all read and which read all.
// - random: blocks of keys drawn for p's block of queries (BigBird, Zaheer et al. 2020). Block a of
//   `block` places draws `random` blocks, with repetition, from those at or before it, and is read
//   by them in turn.
//
// A causal model adds a causal mask.
struct MaskPattern {
  std::int64_t window = 0;
  std::int64_t dilation = 1;
  std::int64_t globals = 0;
  std::int64_t random = 0;
  std::int64_t block = 16;
  std::uint64_t seed = 0;  // of the random blocks

  // Flags of the keys first, first + 1, ...: 1 where kept, else 0. Costs no more than clearing them
  // and what is kept, and with random blocks a few draws for each block of them.
  void fill(std::int64_t p, std::int64_t first, std::span<std::uint8_t> keep) const;
  [[nodiscard]] bool operator==(const MaskPattern&) const = default;

 private:
  // The `which`-th block that block a draws.
  [[nodiscard]] std::int64_t drawn(std::int64_t a, std::int64_t which) const;
};

}  // namespace attune
