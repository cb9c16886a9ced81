#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/observe/text_table.h"
#include "cli/study.h"

namespace attune::cli {
namespace {

constexpr std::size_t kMostPlaces = 5;  // of a point on a terminal; the lines have all

std::string words_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  std::ranges::replace(name, '-', ' ');
  return name;
}

// The half-width with so many digits.
std::string cell_of(const Interval& interval, int digits) {
  if (!std::isfinite(interval.mean)) return "-";
  const std::string mean = fmt::format("{:.4g}", interval.mean);
  const bool varies = interval.half_width > 1e-9 * std::abs(interval.mean);  // not if NaN
  return varies ? fmt::format("{} ±{:.{}g}", mean, interval.half_width, digits) : mean;
}

// Evenly spread places, the first and the last among them.
std::vector<std::size_t> shown_places(std::size_t count) {
  std::vector<std::size_t> places;
  const std::size_t shown = std::min(count, kMostPlaces);
  for (std::size_t i = 0; i < shown; ++i)
    places.push_back(shown < 2 ? 0 : (i * (count - 1) + (shown - 1) / 2) / (shown - 1));
  return places;
}

// Columns of a table that a terminal shows.
std::vector<std::string> shown_columns(const StudyResult& result, std::size_t t) {
  std::vector<std::string> columns = result.columns(t);
  const std::vector<std::string>& shown = result.tables(0)[t].shown;
  if (!shown.empty())
    std::erase_if(columns,
                  [&](const std::string& name) { return !std::ranges::count(shown, name); });
  return columns;
}

std::vector<std::string> axis_names(const StudyResult& result) {
  std::vector<std::string> names;
  for (const Grid::Axis& axis : result.grid.axes) names.push_back(words_of(axis.option));
  return names;
}

// Points whose places are shown: the deepest of each group.
std::vector<std::size_t> shown_points(const StudyResult& result, bool has_places) {
  std::vector<std::size_t> points;
  for (const std::vector<std::size_t>& group : result.groups()) {
    if (has_places) {
      points.push_back(group.back());
    } else {
      points.insert(points.end(), group.begin(), group.end());
    }
  }
  return points;
}

// One line a point, its only column from left to right over the places.
std::string crosswise(const StudyResult& result, std::size_t t) {
  const StudyTable& table = result.tables(0)[t];
  const std::vector<std::size_t> places = shown_places(table.rows.size());
  std::vector<std::string> header = axis_names(result);
  for (const std::size_t r : places)
    header.push_back(header.size() == result.grid.axes.size()
                         ? words_of(table.place) + " " + table.rows[r].place
                         : table.rows[r].place);
  TextTable text(header);
  for (const std::size_t p : shown_points(result, true)) {
    std::vector<std::string> cells = result.grid.points[p].values;
    for (const std::size_t r : shown_places(result.tables(p)[t].rows.size()))
      cells.push_back(cell_of(result.interval(p, t, r, table.columns.front()), 1));
    text.add(std::move(cells));
  }
  return words_of(table.columns.front()) + "\n" + text.text();
}

std::string lengthwise(const StudyResult& result, std::size_t t) {
  const StudyTable& table = result.tables(0)[t];
  std::vector<std::string> header = axis_names(result);
  const bool has_places = !table.place.empty();
  if (has_places) header.push_back(words_of(table.place));
  const std::vector<std::string> columns = shown_columns(result, t);
  for (const std::string& column : columns) header.push_back(words_of(column));
  TextTable text(header);
  for (const std::size_t p : shown_points(result, has_places)) {
    const std::vector<StudyTable::Row>& rows = result.tables(p)[t].rows;
    for (const std::size_t r : shown_places(rows.size())) {
      std::vector<std::string> cells = result.grid.points[p].values;
      if (has_places) cells.push_back(rows[r].place);
      for (const std::string& column : columns)
        cells.push_back(cell_of(result.interval(p, t, r, column), 2));
      text.add(std::move(cells));
    }
  }
  return text.text();
}

// Whether all points have the places of the first one.
bool has_same_places(const StudyResult& result, std::size_t t) {
  const std::vector<std::size_t> points = shown_points(result, true);
  return std::ranges::all_of(points, [&](std::size_t p) {
    return std::ranges::equal(result.tables(p)[t].rows, result.tables(points.front())[t].rows, {},
                              &StudyTable::Row::place, &StudyTable::Row::place);
  });
}

std::string slopes_text(const StudyResult& result) {
  const std::vector<StudySlope> slopes = study_slopes(result);
  if (slopes.empty()) return "";
  std::vector<std::string> header;
  for (const Grid::Axis& axis : result.grid.axes) {
    if (axis.option != result.study.depth) header.push_back(words_of(axis.option));
  }
  header.insert(header.end(), {"quantity", "exponent", "expected"});
  TextTable text(header);
  for (const StudySlope& slope : slopes) {
    std::vector<std::string> cells;
    for (std::size_t a = 0; a < result.grid.axes.size(); ++a) {
      if (result.grid.axes[a].option != result.study.depth)
        cells.push_back(result.grid.points[slope.point].values[a]);
    }
    const Interval& exponent = slope.exponent;
    const std::string half_width =
        std::isfinite(exponent.half_width) ? fmt::format(" ±{:.2f}", exponent.half_width) : "";
    cells.insert(cells.end(), {words_of(slope.column),
                               fmt::format("{:+.2f}{}", exponent.mean, half_width), slope.law});
    text.add(std::move(cells));
  }
  return fmt::format("as powers of {}\n{}", result.study.depth, text.text());
}

}  // namespace

std::string study_text(const StudyResult& result) {
  std::string text;
  const std::vector<StudyTable>& tables = result.tables(0);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (tables[t].is_long) continue;
    const bool is_narrow = !tables[t].place.empty() && result.columns(t).size() == 1;
    text +=
        (is_narrow && has_same_places(result, t) ? crosswise(result, t) : lengthwise(result, t)) +
        '\n';
  }
  const std::string slopes = slopes_text(result);
  return slopes.empty() ? text : text + slopes + '\n';
}

}  // namespace attune::cli
