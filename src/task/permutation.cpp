#include "task/permutation.h"

#include <algorithm>
#include <bit>

#include "task/split.h"

namespace attune {

Permutation::Permutation(const RandomStream& stream, std::uint64_t size)
    : size_(size), half_bits_(std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2)) {
  for (std::size_t round = 0; round < keys_.size(); ++round) {
    const std::array<std::uint32_t, 4> words = stream.bits(round);
    keys_[round] = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  }
}

std::uint64_t Permutation::network(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t next = left ^ (mix(right + key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  do index = network(index);
  while (index >= size_);
  return index;
}

}  // namespace attune
