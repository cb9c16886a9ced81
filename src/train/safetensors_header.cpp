#include "train/safetensors_header.h"

#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/shape.h"
#include "attune/core/text.h"

namespace attune::safetensors {
namespace {

constexpr std::string_view kDTypeKey = "dtype";
constexpr std::string_view kShapeKey = "shape";
constexpr std::string_view kOffsetsKey = "data_offsets";
// What JSON readers of every language can hold exactly.
constexpr std::uint64_t kMaxInteger = std::uint64_t{1} << 53;

// Accepts the header's grammar event by event: no document is built and no recursion happens, so
// that nesting and repetition cost nothing beyond the text itself.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view source) : source_(source) {}

  [[nodiscard]] Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t value) override { unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(shown(text)); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    const bool is_number = place_ == Place::shape || place_ == Place::offsets;
    if (!is_number || value > kMaxInteger) unexpected(std::to_string(value));
    Entry& tensor = entry();
    if (place_ == Place::shape) {
      if (tensor.extents->size() == Shape::kMaxRank) {
        fail(fmt::format("shape has more than {} extents", Shape::kMaxRank));
      }
      tensor.extents->push_back(static_cast<std::int64_t>(value));
    } else {
      if (tensor.offsets->size() == 2) fail("data_offsets has more than two numbers");
      tensor.offsets->push_back(value);
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::tensor || key_ != kDTypeKey) unexpected(shown(value));
    for (const DType dtype : {DType::float32, DType::float64}) {
      if (value == format_name(dtype)) entry().dtype = dtype;
    }
    if (!entry().dtype) {
      fail(fmt::format("dtype is {}, expected F32 or F64", shown(value)));
    }
    return true;
  }

  bool key(string_t& name) override {
    const bool is_new = place_ == Place::header     ? names_.insert(name).second
                        : place_ == Place::metadata ? !header_.metadata.contains(name)
                                                    : !tensor_has(name);
    if (!is_new) fail(fmt::format("the key {} stands twice", shown(name)));
    key_ = std::move(name);
    if (place_ == Place::header && key_ != kMetadataKey) {
      header_.entries.emplace_back().name = key_;
      in_tensor_ = true;
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
      const Entry& tensor = entry();
      if (!tensor.dtype) fail("dtype is missing");
      if (!tensor.extents) fail("shape is missing");
      if (!tensor.offsets) fail("data_offsets is missing");
      in_tensor_ = false;
    }
    place_ = place_ == Place::header ? Place::end : Place::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == kShapeKey) {
      entry().extents.emplace();
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == kOffsetsKey) {
      entry().offsets.emplace();
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && entry().offsets->size() != 2) {
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

  [[nodiscard]] Entry& entry() { return header_.entries.back(); }
  [[nodiscard]] const Entry& entry() const { return header_.entries.back(); }

  // Also refuses what is no field of a tensor.
  [[nodiscard]] bool tensor_has(const std::string& field) const {
    const Entry& tensor = entry();
    if (field == kDTypeKey) return tensor.dtype.has_value();
    if (field == kShapeKey) return tensor.extents.has_value();
    if (field == kOffsetsKey) return tensor.offsets.has_value();
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
    throw IoError(fmt::format("{}: {}: {}", source_,
                              in_tensor_ ? "tensor " + shown(entry().name) : "header", reason));
  }

  std::string_view source_;
  Header header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::start;
  bool in_tensor_ = false;  // from a tensor's name to the end of its object
  std::string key_;         // the latest
};

}  // namespace

Header read_header(std::string_view text, std::string_view source) {
  // The parser skips a byte order mark and takes a NUL for the end of its input.
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos) {
    throw IoError(fmt::format("{}: header is not a JSON object", source));
  }
  HeaderReader reader(source);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

std::string_view format_name(DType dtype) { return dtype == DType::float32 ? "F32" : "F64"; }

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  const std::string cut(text.substr(0, kLongest));
  // JSON leaves the delete character as it is.
  const std::string quoted =
      printable(nlohmann::json(cut).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return text.size() > kLongest ? quoted + "..." : quoted;
}

std::string json_string(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(fmt::format("safetensors: {} is not UTF-8", shown(text)));
  }
}

}  // namespace attune::safetensors
