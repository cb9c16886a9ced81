#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "attune/observe/report_run.h"

namespace attune {

// Hands each object of a JSON-lines file to `take`, which says whether it was of use. Lines beyond
// 64 KiB, torn ones and such without an object count as skipped. Reads line by line, however long
// the file.
void read_json_lines(const std::filesystem::path& path, ReportRun::File& file,
                     const std::function<bool(const nlohmann::json&)>& take);

// A number; NaN where the field is null or beyond 1e30, nothing where it is missing or no number.
[[nodiscard]] std::optional<double> number_in(const nlohmann::json& object, const char* field);
// A whole number from 0 to `most`.
[[nodiscard]] std::optional<std::int64_t> index_in(const nlohmann::json& object, const char* field,
                                                   std::int64_t most);
// A text; empty where there is none.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* field);

}  // namespace attune
