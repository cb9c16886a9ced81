#pragma once

#include <cstdint>
#include <span>

#include "attune/task/task.h"

namespace attune {

// A bijection of 64-bit numbers in which every input bit reaches every output bit: the finaliser of
// SplitMix64 (Steele, Lea, Flood 2014; constants "Mix13" of Stafford 2011).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Decides the split. FNV-1a would not do: its lowest bit is the parity of the input's lowest bits,
// so that "modulo 10" would hold out sequences of one parity only.
[[nodiscard]] constexpr std::uint64_t example_hash(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = mix(tokens.size());
  for (const std::int32_t token : tokens)
    hash = mix(hash + 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(token));
  return hash;
}

[[nodiscard]] constexpr Split split_of(std::span<const std::int32_t> tokens) {
  return example_hash(tokens) % 10 == 0 ? Split::validation : Split::train;
}

}  // namespace attune
