#pragma once

#include <array>
#include <cstdint>

#include "attune/core/random.h"

namespace attune {

// A pseudo-random permutation of [0, size) that is computed, not stored: a Feistel network over the
// smallest even number of bits that holds size, applied again while it leaves the range ("cycle
// walking", Black and Rogaway 2002). The range is at most four times size, so that takes under four
// rounds of the network on average.
class Permutation final {
 public:
  // Requires 1 <= size <= 2^62.
  Permutation(const RandomStream& stream, std::uint64_t size);

  // Requires index < size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  [[nodiscard]] std::uint64_t network(std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, 6> keys_;
};

}  // namespace attune
