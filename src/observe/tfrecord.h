#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attune {

// CRC-32C: the polynomial of Castagnoli, Brauer and Herrmann (1993), bits reflected, as in RFC
// 3720.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

// A record of a TFRecord file, little-endian: length (8 bytes), masked CRC of the length (4), the
// bytes, their masked CRC (4). A CRC is masked by rotation to the right by 15 bits and addition of
// 0xa282ead8, for records may hold CRCs themselves.
[[nodiscard]] std::string tfrecord(std::string_view bytes);

}  // namespace attune
