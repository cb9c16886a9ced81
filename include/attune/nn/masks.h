#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attune/core/mask.h"

namespace attune {

// The numbers that named masks are made with; see list_masks() for which uses which.
struct MaskSizes {
  std::int64_t window = 16;        // keys on each side, the query's own included
  std::int64_t dilation = 2;       // distance between the keys of a dilated window
  std::int64_t global_tokens = 1;  // first tokens that everybody reads and that read everybody
  std::int64_t random_blocks = 2;  // blocks of keys drawn for each block of queries
  std::int64_t block = 16;         // tokens in a block
  std::int64_t prefix = 8;         // first tokens that see each other
};

// A mask by name, or several joined by '+', which keep what all of them keep: "causal+window". The
// part "documents" depends on tokens and is left to whoever knows them: here it keeps everything.
// Throws ConfigError for an unknown name, with the nearest ones, or a size out of its range.
[[nodiscard]] Mask make_mask(std::string_view names, const MaskSizes& sizes);
// Whether `part` is among the names.
[[nodiscard]] bool has_mask_part(std::string_view names, std::string_view part);

struct MaskInfo {
  std::string name;
  std::string description;
};
[[nodiscard]] std::vector<MaskInfo> list_masks();

}  // namespace attune
