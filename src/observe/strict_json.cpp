#include "observe/strict_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace attune {

std::string strict_text(const nlohmann::ordered_json& object, int indent) {
  return object.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void name_nonfinite(nlohmann::ordered_json& object, const std::vector<std::string>& also) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) names.push_back(name);
  }
  names.insert(names.end(), also.begin(), also.end());
  if (!names.empty()) object["nonfinite"] = names;
}

}  // namespace attune
