#pragma once

#include <cstdint>
#include <span>

namespace attune {

// A sparse pattern of attention: which key positions p's query keeps, as a function of the two
// positions p and j among the keys alone, so that a pattern means the same in one pass, in chunks
// and token by token. What any of its parts keeps is kept:
//   window   |p - j| = 0, d, 2d, ..., (window - 1) d, d = dilation (Longformer, Beltagy et al.
//   2020) globals  j or p is among the first `globals`: everybody reads them and they read
//   everybody random   key blocks drawn for p's block of queries (BigBird, Zaheer et al. 2020):
//   block a of
//            `block` positions draws `random` blocks, with repetition, from those at or before it,
//            and is read by them in turn
// A causal model adds a causal mask.
struct MaskPattern {
  std::int64_t window = 0;
  std::int64_t dilation = 1;
  std::int64_t globals = 0;
  std::int64_t random = 0;
  std::int64_t block = 16;
  std::uint64_t seed = 0;  // of the random blocks

  [[nodiscard]] bool keeps(std::int64_t p, std::int64_t j) const;
  // Flags of the keys first, first + 1, ...: 1 where kept, else 0. Costs no more than clearing them
  // and what is kept.
  void fill(std::int64_t p, std::int64_t first, std::span<std::uint8_t> keep) const;
  [[nodiscard]] bool operator==(const MaskPattern&) const = default;

 private:
  // The `which`-th block that block a draws.
  [[nodiscard]] std::int64_t drawn(std::int64_t a, std::int64_t which) const;
};

}  // namespace attune
