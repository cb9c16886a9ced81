#include <algorithm>

#include <nlohmann/json.hpp>

#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/core/version.h"
#include "cli/study.h"
#include "observe/strict_json.h"

namespace attune::cli {
namespace {

using Json = nlohmann::ordered_json;

// A grid value or a place as the number that it is, else as text.
Json value_of(const std::string& text) {
  if (const auto integer = parse_integer(text)) return *integer;
  if (const auto number = parse_float(text)) return *number;
  return text;
}

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

Json line_of(const StudyResult& result, std::size_t point) {
  Json line;
  line["study"] = result.study.name;
  for (std::size_t a = 0; a < result.grid.axes.size(); ++a)
    line[with_underscores(result.grid.axes[a].option)] =
        value_of(result.grid.points[point].values[a]);
  return line;
}

std::string measurement_line(const StudyResult& result, std::size_t point, std::int64_t seed) {
  Json line = line_of(result, point);
  line["seed"] = result.first_seed + seed;
  const auto index =
      point * static_cast<std::size_t>(result.seeds) + static_cast<std::size_t>(seed);
  for (const StudyTable& table : result.measured[index]) {
    Json rows = Json::array();
    for (const StudyTable::Row& row : table.rows) {
      Json object = Json::object();
      if (!table.place.empty()) object[table.place] = value_of(row.place);
      for (std::size_t c = 0; c < table.columns.size(); ++c)
        object[table.columns[c]] = row.values[c];
      name_nonfinite(object);
      rows.push_back(std::move(object));
    }
    if (table.place.empty()) rows = rows.at(0);
    line[table.name] = std::move(rows);
  }
  return strict_text(line);
}

// Means and half-widths of a point's table, one line a place.
void add_summary(const StudyResult& result, std::size_t point, std::string& lines) {
  const std::vector<StudyTable>& tables = result.tables(point);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (std::size_t r = 0; r < tables[t].rows.size(); ++r) {
      Json line = line_of(result, point);
      line["summary"] = tables[t].name;
      if (!tables[t].place.empty()) line[tables[t].place] = value_of(tables[t].rows[r].place);
      line["seeds"] = result.seeds;
      for (const std::string& column : tables[t].columns) {
        const Interval interval = result.interval(point, t, r, column);
        line[column] = interval.mean;
        if (result.seeds > 1) line[column + "_ci95"] = interval.half_width;
      }
      name_nonfinite(line);
      lines += strict_text(line) + '\n';
    }
  }
}

}  // namespace

void write_study_lines(const StudyResult& result, const std::string& command_line,
                       const std::filesystem::path& file) {
  Json head;
  head["study"] = result.study.name;
  head["command_line"] = command_line;
  head["version"] = kVersion;
  std::string lines = strict_text(head) + '\n';
  for (std::size_t p = 0; p < result.grid.points.size(); ++p) {
    for (std::int64_t s = 0; s < result.seeds; ++s) lines += measurement_line(result, p, s) + '\n';
  }
  for (std::size_t p = 0; p < result.grid.points.size(); ++p) add_summary(result, p, lines);
  for (const StudySlope& slope : study_slopes(result)) {
    Json line = line_of(result, slope.point);
    line.erase(with_underscores(result.study.depth));
    line["summary"] = "exponents";
    line["of"] = slope.column;
    line["in"] = with_underscores(result.study.depth);
    line["seeds"] = result.seeds;
    line["exponent"] = slope.exponent.mean;
    if (result.seeds > 1) line["exponent_ci95"] = slope.exponent.half_width;
    if (!slope.law.empty()) line["law"] = slope.law;
    name_nonfinite(line);
    lines += strict_text(line) + '\n';
  }
  write_file_atomically(file, lines);
}

}  // namespace attune::cli
