#include "attune/train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "train/safetensors_header.h"

namespace attune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements and lengths are copied as they lie in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

using safetensors::Entry;
using safetensors::format_name;
using safetensors::json_string;
using safetensors::kMetadataKey;
using safetensors::shown;

// {"__metadata__":{...},"name":{"dtype":...},...
std::string json_of(const TensorFile& file) {
  std::string json = "{";
  if (!file.metadata.empty()) {
    json += fmt::format("\"{}\":", kMetadataKey);
    for (char separator = '{'; const auto& [key, value] : file.metadata) {
      json += fmt::format("{}{}:{}", std::exchange(separator, ','), json_string(key),
                          json_string(value));
    }
    json += '}';
  }
  std::unordered_set<std::string_view> names{kMetadataKey};
  std::int64_t offset = 0;
  for (const auto& [name, array] : file.tensors) {
    if (!names.insert(name).second) {
      throw ValueError(fmt::format("safetensors: the name {} is taken", shown(name)));
    }
    if (array.is_null()) {
      throw ValueError(fmt::format("safetensors: {} is a null array", shown(name)));
    }
    json += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", json_string(name), format_name(array.dtype()),
                        fmt::join(array.shape(), ","), offset, offset + array.bytes());
    offset += array.bytes();
  }
  return json + '}';
}

// Length and header, padded.
std::string encoded_header(const TensorFile& file) {
  const std::string json = json_of(file);
  const std::uint64_t length = (json.size() + kAlignment - 1) / kAlignment * kAlignment;
  if (length > kMaxHeaderBytes) {
    throw ValueError(fmt::format("safetensors: header of {} bytes, expected at most {}", length,
                                 kMaxHeaderBytes));
  }
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  bytes += json;
  bytes.resize(kLengthBytes + static_cast<std::size_t>(length), ' ');
  return bytes;
}

std::string_view header_of(std::string_view bytes, std::string_view source) {
  if (bytes.size() < kLengthBytes) {
    throw IoError(fmt::format("{}: {} bytes are no safetensors file, expected {} or more", source,
                              bytes.size(), kLengthBytes + 2));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    throw IoError(fmt::format("{}: header of {} bytes, expected at most {}", source, length,
                              kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    throw IoError(
        fmt::format("{}: header of {} bytes in a file of {}", source, length, bytes.size()));
  }
  return bytes.substr(kLengthBytes, static_cast<std::size_t>(length));
}

Shape shape_of(const Entry& entry, std::string_view source) {
  try {
    return Shape(*entry.extents);
  } catch (const ShapeError& error) {
    throw IoError(fmt::format("{}: tensor {}: {}", source, shown(entry.name), error.what()));
  }
}

// The shapes of entries that are in the order of their data and cover `data_bytes` bytes exactly.
std::vector<Shape> checked_shapes(const std::vector<Entry>& entries, std::uint64_t data_bytes,
                                  std::string_view source) {
  std::vector<Shape> shapes;
  std::uint64_t covered = 0;
  for (const Entry& entry : entries) {
    const std::uint64_t begin = entry.offsets->at(0);
    const std::uint64_t end = entry.offsets->at(1);
    const auto fail = [&](std::string_view reason) {
      throw IoError(fmt::format("{}: tensor {}: data_offsets [{}, {}] {}", source,
                                shown(entry.name), begin, end, reason));
    };
    if (begin > end) fail("end before they begin");
    if (end > data_bytes) fail(fmt::format("lie beyond the {} bytes of data", data_bytes));
    const Shape& shape = shapes.emplace_back(shape_of(entry, source));
    const auto element = static_cast<std::uint64_t>(bytes_of(*entry.dtype));
    const std::uint64_t span = end - begin;
    if (span % element != 0 || span / element != static_cast<std::uint64_t>(shape.size())) {
      fail(fmt::format("hold {} bytes, but {} {} has {} elements of {}", span,
                       format_name(*entry.dtype), to_string(shape), shape.size(), element));
    }
    if (begin < covered) fail("overlap another tensor");
    if (begin > covered) fail(fmt::format("leave a hole after byte {}", covered));
    covered = end;
  }
  if (covered != data_bytes) {
    throw IoError(fmt::format("{}: {} bytes follow the last tensor", source, data_bytes - covered));
  }
  return shapes;
}

}  // namespace

std::string encode_safetensors(const TensorFile& file) {
  std::string bytes = encoded_header(file);
  std::size_t size = bytes.size();
  for (const auto& [name, array] : file.tensors) size += static_cast<std::size_t>(array.bytes());
  bytes.reserve(size);
  for (const auto& tensor : file.tensors) {
    const Array& array = tensor.second;
    dispatch(array.dtype(), [&]<class T>() {
      const std::span<const T> elements = array.template data<T>();
      bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
    });
  }
  return bytes;
}

TensorFile decode_safetensors(std::string_view bytes, std::string_view source) {
  const std::string_view text = header_of(bytes, source);
  const std::string_view data = bytes.substr(kLengthBytes + text.size());
  safetensors::Header header = safetensors::read_header(text, source);
  // Stable: empty tensors stay where the header has them.
  std::ranges::stable_sort(header.entries, {}, [](const Entry& entry) { return *entry.offsets; });
  const std::vector<Shape> shapes = checked_shapes(header.entries, data.size(), source);

  TensorFile file;
  file.metadata = std::move(header.metadata);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Entry& entry = header.entries[i];
    Array array = Array::uninitialized(shapes[i], *entry.dtype);
    dispatch(*entry.dtype, [&]<class T>() {
      const std::span<T> elements = array.template mutable_data<T>();
      if (elements.empty()) return;
      std::memcpy(elements.data(), data.data() + entry.offsets->front(), elements.size_bytes());
    });
    file.tensors.emplace_back(std::move(entry.name), std::move(array));
  }
  return file;
}

}  // namespace attune
