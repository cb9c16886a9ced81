#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace attune::gnuplot {

// A text in quotes, for any text.
[[nodiscard]] std::string literal(std::string_view text);

// Opens a picture of rows x columns panels, each of the given size in pixels; what follows draws
// panel after panel. Throws ValueError unless `file` ends in .svg or .png.
[[nodiscard]] std::string begin(const std::filesystem::path& file, int rows, int columns, int width,
                                int height);

// Runs a script that begin() opened and writes what it draws to `file`. Throws IoError.
void run(const std::string& script, const std::filesystem::path& file);

}  // namespace attune::gnuplot
