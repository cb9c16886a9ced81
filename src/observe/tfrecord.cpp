#include "observe/tfrecord.h"

#include <array>

namespace attune {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kRemainders = make_table();

template <class Integer>
void append_little_endian(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kRemainders[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tfrecord(std::string_view bytes) {
  std::string record;
  record.reserve(bytes.size() + 16);
  append_little_endian(record, std::uint64_t{bytes.size()});
  append_little_endian(record, masked_crc32c(record));
  record.append(bytes);
  append_little_endian(record, masked_crc32c(bytes));
  return record;
}

}  // namespace attune
