#include <algorithm>

#include "attune/core/text.h"
#include "cli/study.h"

namespace attune::cli {

std::vector<std::string> StudyResult::columns(std::size_t table) const {
  std::vector<std::string> columns;
  for (std::size_t point = 0; point < grid.points.size(); ++point) {
    for (const std::string& column : tables(point).at(table).columns)
      if (std::ranges::count(columns, column) == 0) columns.push_back(column);
  }
  return columns;
}

double StudyResult::value(std::size_t point, std::size_t seed, std::size_t table, std::size_t row,
                          const std::string& column) const {
  const StudyTable& own = measured[point * static_cast<std::size_t>(seeds) + seed].at(table);
  const auto found = std::ranges::find(own.columns, column);
  if (found == own.columns.end()) return kNoFigure;
  return own.rows.at(row).values.at(static_cast<std::size_t>(found - own.columns.begin()));
}

Interval StudyResult::interval(std::size_t point, std::size_t table, std::size_t row,
                               const std::string& column) const {
  std::vector<double> values;
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(seeds); ++seed)
    values.push_back(value(point, seed, table, row, column));
  return confidence_interval(values);
}

const std::vector<StudyTable>& StudyResult::tables(std::size_t point) const {
  return measured[point * static_cast<std::size_t>(seeds)];
}

bool StudyResult::has_depth() const {
  return std::ranges::any_of(grid.axes,
                             [&](const Grid::Axis& axis) { return axis.option == study.depth; });
}

double StudyResult::depth_of(std::size_t point) const {
  for (std::size_t a = 0; a < grid.axes.size(); ++a) {
    if (grid.axes[a].option == study.depth)
      return parse_float(grid.points[point].values[a]).value_or(0);
  }
  return 0;
}

std::vector<std::vector<std::size_t>> StudyResult::groups() const {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<std::vector<std::string>> known;
  for (std::size_t p = 0; p < grid.points.size(); ++p) {
    std::vector<std::string> values = grid.points[p].values;
    for (std::size_t a = 0; a < grid.axes.size(); ++a) {
      if (grid.axes[a].option == study.depth) values[a].clear();
    }
    const auto found = std::ranges::find(known, values);
    if (found == known.end()) {
      known.push_back(values);
      groups.push_back({p});
    } else {
      groups[static_cast<std::size_t>(found - known.begin())].push_back(p);
    }
  }
  for (std::vector<std::size_t>& group : groups)
    std::ranges::stable_sort(group, {}, [&](std::size_t p) { return depth_of(p); });
  return groups;
}

namespace {

// The exponent of one column of a group of points.
StudySlope slope_of(const StudyResult& result, const std::vector<std::size_t>& group, std::size_t t,
                    const std::string& column, bool has_law) {
  std::vector<double> exponents;
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(result.seeds); ++seed) {
    std::vector<double> x, y;
    for (const std::size_t p : group) {
      x.push_back(result.depth_of(p));
      y.push_back(result.value(p, seed, t, 0, column));
    }
    exponents.push_back(log_log_slope(x, y));
  }
  return {group.front(), result.tables(group.front())[t].name, column,
          confidence_interval(exponents),
          has_law ? result.study.law(result.grid.points[group.front()].config) : ""};
}

}  // namespace

std::vector<StudySlope> study_slopes(const StudyResult& result) {
  std::vector<StudySlope> slopes;
  if (!result.has_depth()) return slopes;
  const std::vector<StudyTable>& tables = result.tables(0);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (!tables[t].place.empty()) continue;
    const std::vector<std::string> columns = result.columns(t);
    for (const std::string& column : columns) {
      const bool has_law = column == columns.front() && result.study.law;
      for (const std::vector<std::size_t>& group : result.groups()) {
        const std::vector<std::string>& own = result.tables(group.front())[t].columns;
        if (std::ranges::count(own, column) > 0)
          slopes.push_back(slope_of(result, group, t, column, has_law));
      }
    }
  }
  return slopes;
}

}  // namespace attune::cli
