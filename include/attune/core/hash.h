#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attune {

// 64-bit FNV-1a, fed piece by piece.
class Fnv1a final {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(std::uint64_t number);  // eight bytes, little-endian
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

// 16 lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(std::uint64_t value);

// SHA-256 (FIPS 180-4) as 64 hexadecimal digits: identifies a data file in config.toml.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace attune
