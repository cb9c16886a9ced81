#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attune/core/dtype.h"

// The JSON header of a safetensors file (attune/train/safetensors.h).
namespace attune::safetensors {

inline constexpr std::string_view kMetadataKey = "__metadata__";

// One tensor as the header tells it; whether shape, offsets and data fit each other is not known
// yet.
struct Entry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> extents;
  std::optional<std::vector<std::uint64_t>> offsets;  // [begin, end)
};
struct Header {
  std::vector<Entry> entries;  // every field is there; in the order of the text
  std::map<std::string, std::string> metadata;
};

// Throws IoError in one line that names `source`, the tensor and the reason for all that departs
// from the format. Needs no more memory than a multiple of the text, and no stack for nesting.
[[nodiscard]] Header read_header(std::string_view text, std::string_view source);

[[nodiscard]] std::string_view format_name(DType dtype);  // "F32", "F64"
// Text from a file as it may stand in a one-line message: quoted, escaped, cut.
[[nodiscard]] std::string shown(std::string_view text);
// A JSON string. Throws ValueError where the text is not UTF-8.
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace attune::safetensors
