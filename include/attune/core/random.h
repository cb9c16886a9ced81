#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace attune {

// Randomness is a function, not a state: every number is Philox4x32-10 (Salmon et al. 2011) of
//   key     = seed
//   counter = { index low, index high, step, hash of the stream's path }
// so whoever knows the coordinates of a number gets that number: shards, micro-batches and a
// resumed run draw what one unbroken thread would have drawn, and nothing has to be saved.
class RandomStream final {
 public:
  RandomStream(std::uint64_t seed, std::uint32_t step, std::uint32_t path_hash)
      : seed_(seed), step_(step), path_hash_(path_hash) {}

  // Four independent 32-bit numbers for one index.
  [[nodiscard]] std::array<std::uint32_t, 4> bits(std::uint64_t index) const;
  // The words of consecutive indices, out[4 * i + w] = bits(first_index + i)[w], several times
  // faster than one bits() after another. Throws ValueError unless the size of `out` is a multiple
  // of 4.
  void fill(std::uint64_t first_index, std::span<std::uint32_t> out) const;
  // Uniform in [0, 1) with 53 bits: the first two words at `index` as one 64-bit number (the first
  // word above), its upper 53 bits times 2^-53.
  [[nodiscard]] double uniform(std::uint64_t index) const;
  // Standard normal by Box and Muller (1958) in double. `index` counts numbers; numbers 2k and 2k +
  // 1 come from the four words at k, made into two uniform numbers u, v as in uniform():
  //   normal(2k)     = sqrt(-2 ln(1 - u)) cos(2 pi v)
  //   normal(2k + 1) = sqrt(-2 ln(1 - u)) sin(2 pi v)
  [[nodiscard]] double normal(std::uint64_t index) const;

 private:
  std::uint64_t seed_;
  std::uint32_t step_;
  std::uint32_t path_hash_;
};

// Seed and step of a run; hands out the stream of each use by its path, such as
// "block.0.attention.dropout".
struct Randomness {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;

  // The path enters as its 64-bit FNV-1a hash, upper half XOR lower half.
  [[nodiscard]] RandomStream stream(std::string_view path) const;
};

// Draws one number after another from the part of a stream that belongs to one example.
// Examples are 32-bit coordinates; each may draw up to 2^32 blocks.
class RandomCursor final {
 public:
  RandomCursor(RandomStream stream, std::uint32_t example)
      : stream_(stream), block_(static_cast<std::uint64_t>(example) << 32) {}

  [[nodiscard]] std::uint32_t bits();
  // Uniform integer in [0, bound), without bias. Throws ValueError for bound 0.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound);
  // Uniform integer in [low, high], both included. Throws ValueError for low > high.
  [[nodiscard]] std::int64_t between(std::int64_t low, std::int64_t high);
  // Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform();

 private:
  RandomStream stream_;
  std::uint64_t block_;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace attune
