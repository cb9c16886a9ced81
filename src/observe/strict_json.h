#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attune {

// The object as JSON that every parser takes: null for a number that is not finite, U+FFFD for
// bytes that are not UTF-8. indent -1: one line.
[[nodiscard]] std::string strict_text(const nlohmann::ordered_json& object, int indent = -1);

// Adds "nonfinite": the names of the object's own numbers that are not finite, which the text shows
// as null, then what else is given; nothing where there is none.
void name_nonfinite(nlohmann::ordered_json& object, const std::vector<std::string>& also = {});

}  // namespace attune
