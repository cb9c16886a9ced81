#include "attune/observe/npy.h"

#include <bit>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"

namespace attune {
namespace {

constexpr std::size_t kAlignment = 64;  // of the elements in the file
constexpr std::size_t kPrefix = 10;     // magic, version, length of the header

// "(2, 3)", "(2,)", "()"
std::string tuple_of(const Shape& shape) {
  std::string text;
  for (int axis = 0; axis < shape.rank(); ++axis)
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  return "(" + text + (shape.rank() == 1 ? ",)" : ")");
}

std::string header_of(const Shape& shape, std::string_view type) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type,
                                   tuple_of(shape));
  const std::size_t used = kPrefix + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string prefix("\x93NUMPY\x01\x00", 8);
  prefix += static_cast<char>(header.size() & 0xff);
  prefix += static_cast<char>(header.size() >> 8);
  return prefix + header;
}

template <class T>
void write(const std::filesystem::path& path, const Shape& shape, std::span<const T> values,
           std::string_view type) {
  if (std::ssize(values) != shape.size())
    throw ShapeError(fmt::format("write_npy: {} numbers for {}", values.size(), to_string(shape)));
  std::string bytes = header_of(shape, type);
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  for (const T value : values) {
    const auto bits = std::bit_cast<Bits>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xff);
  }
  write_file_atomically(path, bytes);
}

}  // namespace

void write_npy(const std::filesystem::path& path, const Shape& shape,
               std::span<const double> values) {
  write(path, shape, values, "<f8");
}

void write_npy(const std::filesystem::path& path, const Shape& shape,
               std::span<const std::int32_t> values) {
  write(path, shape, values, "<i4");
}

}  // namespace attune
