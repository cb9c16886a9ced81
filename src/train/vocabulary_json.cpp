#include "train/vocabulary_json.h"

#include <nlohmann/json.hpp>

#include "attune/core/error.h"

namespace attune {

std::optional<std::vector<std::string>> parse_vocabulary(const std::string& text) {
  using Json = nlohmann::json;
  // Refused as it begins, so that nesting is never built up.
  const auto is_flat = [](int depth, Json::parse_event_t event, Json&) {
    const bool opens = event == Json::parse_event_t::object_start ||
                       (event == Json::parse_event_t::array_start && depth > 0);
    if (opens) throw IoError("nested");
    return true;
  };
  // The parser would take a NUL for the end.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  try {
    return Json::parse(text, is_flat).get<std::vector<std::string>>();
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const IoError&) {
    return std::nullopt;
  }
}

std::string vocabulary_text(const std::vector<std::string>& vocabulary) {
  try {
    return nlohmann::json(vocabulary).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError("checkpoint: the vocabulary holds a token that is not UTF-8");
  }
}

}  // namespace attune
