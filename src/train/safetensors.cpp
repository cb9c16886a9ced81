#include "attune/train/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"

namespace attune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements and lengths are copied as they lie in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kDTypeKey = "dtype";
constexpr std::string_view kShapeKey = "shape";
constexpr std::string_view kOffsetsKey = "data_offsets";
// What JSON readers of every language can hold exactly.
constexpr std::uint64_t kMaxInteger = std::uint64_t{1} << 53;

std::string_view format_name(DType dtype) { return dtype == DType::float32 ? "F32" : "F64"; }

// Text from a file as it may stand in a one-line message: quoted, escaped, cut.
std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  const std::string cut(text.substr(0, kLongest));
  const std::string quoted =
      nlohmann::json(cut).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > kLongest ? quoted + "..." : quoted;
}

std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(fmt::format("safetensors: {} is not UTF-8", shown(text)));
  }
}

// One tensor as the header tells it, complete but not yet compared with the data.
struct Entry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> extents;
  std::optional<std::vector<std::uint64_t>> offsets;
};

// Accepts the header's grammar event by event: no document is built and no recursion happens, so
// that nesting and repetition cost nothing beyond the text itself.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view source) : source_(source) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(shown(text)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    const bool is_number = place_ == Place::shape || place_ == Place::offsets;
    if (!is_number || value > kMaxInteger) unexpected(std::to_string(value));
    Entry& entry = entries.back();
    if (place_ == Place::shape) {
      if (entry.extents->size() == Shape::kMaxRank) {
        fail(fmt::format("shape has more than {} extents", Shape::kMaxRank));
      }
      entry.extents->push_back(static_cast<std::int64_t>(value));
    } else {
      if (entry.offsets->size() == 2) fail("data_offsets has more than two numbers");
      entry.offsets->push_back(value);
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::tensor || key_ != kDTypeKey) unexpected(shown(value));
    for (const DType dtype : {DType::float32, DType::float64}) {
      if (value == format_name(dtype)) entries.back().dtype = dtype;
    }
    if (!entries.back().dtype) {
      fail(fmt::format("dtype is {}, expected F32 or F64", shown(value)));
    }
    return true;
  }

  bool key(string_t& name) override {
    const bool is_new = place_ == Place::header     ? names_.insert(name).second
                        : place_ == Place::metadata ? !metadata.contains(name)
                                                    : !tensor_has(name);
    if (!is_new) fail(fmt::format("the key {} stands twice", shown(name)));
    key_ = std::move(name);
    if (place_ == Place::header && key_ != kMetadataKey) {
      entries.emplace_back().name = key_;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::header;
    } else if (place_ == Place::header) {
      place_ = key_ == kMetadataKey ? Place::metadata : Place::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      const Entry& entry = entries.back();
      if (!entry.dtype) fail("dtype is missing");
      if (!entry.extents) fail("shape is missing");
      if (!entry.offsets) fail("data_offsets is missing");
    }
    place_ = place_ == Place::header ? Place::end : Place::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == kShapeKey) {
      entries.back().extents.emplace();
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == kOffsetsKey) {
      entries.back().offsets.emplace();
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && entries.back().offsets->size() != 2) {
      fail("data_offsets has less than two numbers");
    }
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    throw IoError(fmt::format("{}: header is not JSON at byte {}", source_, position));
  }

 private:
  enum class Place { start, header, metadata, tensor, shape, offsets, end };

  // Also refuses what is no field of a tensor.
  [[nodiscard]] bool tensor_has(const std::string& field) const {
    const Entry& entry = entries.back();
    if (field == kDTypeKey) return entry.dtype.has_value();
    if (field == kShapeKey) return entry.extents.has_value();
    if (field == kOffsetsKey) return entry.offsets.has_value();
    fail(fmt::format("the key {} is unknown", shown(field)));
  }

  [[nodiscard]] std::string expected() const {
    switch (place_) {
      case Place::start:
        return "an object";
      case Place::header:
        return "an object";
      case Place::metadata:
        return "a string";
      case Place::tensor:
        return key_ == kDTypeKey ? "a string" : "an array";
      case Place::shape:
      case Place::offsets:
        return "a whole number from 0 to 2^53";
      case Place::end:
        return "the end";
    }
    throw InternalError("safetensors: a place of no kind");
  }

  [[noreturn]] void unexpected(std::string_view found) const {
    const bool has_key =
        place_ != Place::start && !(place_ == Place::header && key_ != kMetadataKey);
    fail(fmt::format("{}{} found, expected {}", has_key ? shown(key_) + ": " : "", found,
                     expected()));
  }
  [[noreturn]] void fail(std::string_view reason) const {
    const bool in_tensor = !entries.empty() && place_ != Place::start &&
                           place_ != Place::metadata && key_ != kMetadataKey;
    throw IoError(fmt::format("{}: {}: {}", source_,
                              in_tensor ? "tensor " + shown(entries.back().name) : "header",
                              reason));
  }

  std::string_view source_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::start;
  std::string key_;
};

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
  const std::string_view header = bytes.substr(kLengthBytes, static_cast<std::size_t>(length));
  // The parser skips a byte order mark and takes a NUL for the end of its input.
  if (!header.starts_with('{') || header.find('\0') != std::string_view::npos) {
    throw IoError(fmt::format("{}: header is not a JSON object", source));
  }
  return header;
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
  std::string header(kLengthBytes, '\0');
  header += '{';
  if (!file.metadata.empty()) {
    header += fmt::format("\"{}\":", kMetadataKey);
    for (char separator = '{'; const auto& [key, value] : file.metadata) {
      header += fmt::format("{}{}:{}", std::exchange(separator, ','), json_string(key),
                            json_string(value));
    }
    header += '}';
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
    if (header.size() > kLengthBytes + 1) header += ',';
    header += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          json_string(name), format_name(array.dtype()),
                          fmt::join(array.shape(), ","), offset, offset + array.bytes());
    offset += array.bytes();
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = header.size() - kLengthBytes;
  if (length > kMaxHeaderBytes) {
    throw ValueError(fmt::format("safetensors: header of {} bytes, expected at most {}", length,
                                 kMaxHeaderBytes));
  }
  std::memcpy(header.data(), &length, kLengthBytes);

  std::string bytes = std::move(header);
  bytes.reserve(bytes.size() + static_cast<std::size_t>(offset));
  for (const auto& [name, array] : file.tensors) {
    dispatch(array.dtype(), [&]<class T>() {
      const std::span<const T> elements = array.template data<T>();
      bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
    });
  }
  return bytes;
}

TensorFile decode_safetensors(std::string_view bytes, std::string_view source) {
  const std::string_view header = header_of(bytes, source);
  const std::string_view data = bytes.substr(kLengthBytes + header.size());
  HeaderReader reader(source);
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  // Stable: empty tensors stay where the header has them.
  std::ranges::stable_sort(reader.entries, {}, [](const Entry& entry) { return *entry.offsets; });
  const std::vector<Shape> shapes = checked_shapes(reader.entries, data.size(), source);

  TensorFile file;
  file.metadata = std::move(reader.metadata);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Entry& entry = reader.entries[i];
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
