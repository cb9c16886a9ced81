#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attune {

// The texts of tokens as a file's metadata holds them: a JSON array of strings and nothing else.
[[nodiscard]] std::optional<std::vector<std::string>> parse_vocabulary(const std::string& text);
// Throws ValueError for a text that is not UTF-8.
[[nodiscard]] std::string vocabulary_text(const std::vector<std::string>& vocabulary);

}  // namespace attune
