#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace attune {

// A line through points; through more than 40 of them, without marks and intervals. What is not
// finite, or not above 0 on a logarithmic axis, is left out.
struct PlotSeries {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> error{};  // half-width of the interval around y; empty: none
  bool dashed = false;          // no intervals, and the colour of the series before it
};
struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<PlotSeries> series;
};

// A matrix as colours, row 0 on top. What is not finite stays blank.
struct HeatMap {
  std::string title, x_label, y_label;
  std::vector<std::string> x_ticks, y_ticks;  // texts of columns and rows; empty: their numbers
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows, columns]
  double low = 0, high = 1;    // the ends of the colour scale
};

// Draws panels side by side into one picture, SVG or PNG by the extension of `file`, through the
// program gnuplot (Debian: gnuplot-nox), which is looked up in PATH; texts may hold anything.
// Throws IoError: no gnuplot, a picture that it could not draw, a file that cannot be written. Then
// the file is as it was. Throws ValueError for another extension, no panel, or series and maps
// whose lengths do not fit.
void draw(std::span<const Plot> panels, const std::filesystem::path& file);
void draw(std::span<const HeatMap> panels, int per_row, const std::filesystem::path& file);

}  // namespace attune
