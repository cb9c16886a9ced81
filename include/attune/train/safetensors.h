#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/array/array.h"

namespace attune {

// The safetensors format, byte by byte (data/README.md tells it as well):
//   8 bytes   length N of the header, unsigned little-endian, at most kMaxHeaderBytes
//   N bytes   UTF-8 JSON object: "name": {"dtype": "F32" | "F64", "shape": [..],
//             "data_offsets": [begin, end]}, and "__metadata__": {string: string}; written padded
//             with spaces to a multiple of 8
//   the rest  the arrays' little-endian elements, row-major; offsets count from here, and cover all
//             of it without gap or overlap
struct TensorFile {
  std::vector<std::pair<std::string, Array>> tensors;  // in the order of the file's data
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// The file's bytes, the same for the same tensors and metadata. Throws ValueError for a duplicate
// or reserved name, a null array, and text that is not UTF-8.
[[nodiscard]] std::string encode_safetensors(const TensorFile& file);
// Strict: anything that is not as above, a hostile length or offset, an unknown dtype, a duplicate
// key, trailing bytes, throws IoError in one line that names `source`, the tensor and the reason.
// Every check comes before the first array is allocated, so memory stays bounded by the size of the
// input.
[[nodiscard]] TensorFile decode_safetensors(std::string_view bytes, std::string_view source);

}  // namespace attune
