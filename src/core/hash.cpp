#include "attune/core/hash.h"

#include <algorithm>
#include <array>
#include <bit>

namespace attune {
namespace {

constexpr std::uint64_t kFnvPrime = 0x100000001b3u;
constexpr char kHexDigits[] = "0123456789abcdef";

// FIPS 180-4, section 4.2.2: fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Sha256State = std::array<std::uint32_t, 8>;
using Sha256Block = std::array<unsigned char, 64>;

// The message schedule W of one block, FIPS 180-4, section 6.2.2 step 1.
std::array<std::uint32_t, 64> schedule(const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) {
    const unsigned char* word = block + 4 * t;
    w[t] = std::uint32_t{word[0]} << 24 | std::uint32_t{word[1]} << 16 |
           std::uint32_t{word[2]} << 8 | std::uint32_t{word[3]};
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t x = w[t - 15];
    const std::uint32_t y = w[t - 2];
    const std::uint32_t sigma0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3);
    const std::uint32_t sigma1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10);
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  return w;
}

// Steps 2 to 4 of FIPS 180-4, section 6.2.2, in its letters.
void compress(Sha256State& state, const unsigned char* block) {
  const auto w = schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + sum1 + choice + kSha256Constants[t] + w[t];
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + sum0 + majority;
  }
  const Sha256State change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += change[i];
}

void append_hex(std::string& text, std::uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    text += kHexDigits[value >> shift & 15];
}

}  // namespace

void Fnv1a::add(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    hash_ = (hash_ ^ std::to_integer<std::uint64_t>(byte)) * kFnvPrime;
  }
}

void Fnv1a::add(std::string_view text) { add(std::as_bytes(std::span(text))); }

void Fnv1a::add(std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) hash_ = (hash_ ^ (number >> shift & 255)) * kFnvPrime;
}

std::string to_hex(std::uint64_t value) {
  std::string text;
  append_hex(text, value, 16);
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::uint64_t bit_count = std::uint64_t{bytes.size()} * 8;
  while (bytes.size() >= sizeof(Sha256Block)) {
    compress(state, reinterpret_cast<const unsigned char*>(bytes.data()));
    bytes.remove_prefix(sizeof(Sha256Block));
  }

  // Padding (section 5.1.1): a single 1 bit, zeros, and the bit count big-endian at the end of a
  // block.
  Sha256Block block{};
  std::copy(bytes.begin(), bytes.end(), block.begin());
  block[bytes.size()] = 0x80;
  if (bytes.size() + 1 > block.size() - sizeof(bit_count)) {
    compress(state, block.data());
    block.fill(0);
  }
  for (std::size_t i = 0; i < sizeof(bit_count); ++i) {
    block[block.size() - 1 - i] = static_cast<unsigned char>(bit_count >> 8 * i);
  }
  compress(state, block.data());

  std::string text;
  for (const std::uint32_t word : state) append_hex(text, word, 8);
  return text;
}

}  // namespace attune
