#include <algorithm>

#include "attune/core/text.h"
#include "cli/study.h"

namespace attune::cli {

std::vector<Interval> StudyResult::intervals(std::size_t point, std::size_t table,
                                             std::size_t row) const {
  const std::size_t begin = point * static_cast<std::size_t>(seeds);
  const std::size_t columns = measured[begin][table].columns.size();
  std::vector<Interval> result;
  for (std::size_t c = 0; c < columns; ++c) {
    std::vector<double> values;
    for (std::size_t s = 0; s < static_cast<std::size_t>(seeds); ++s)
      values.push_back(measured[begin + s].at(table).rows.at(row).values.at(c));
    result.push_back(confidence_interval(values));
  }
  return result;
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
                    std::size_t c) {
  std::vector<double> exponents;
  for (std::size_t s = 0; s < static_cast<std::size_t>(result.seeds); ++s) {
    std::vector<double> x, y;
    for (const std::size_t p : group) {
      const std::size_t index = p * static_cast<std::size_t>(result.seeds) + s;
      x.push_back(result.depth_of(p));
      y.push_back(result.measured[index][t].rows[0].values[c]);
    }
    exponents.push_back(log_log_slope(x, y));
  }
  const StudyTable& table = result.tables(group.front())[t];
  const bool has_law = c == 0 && result.study.law;
  return {group.front(), table.name, table.columns[c], confidence_interval(exponents),
          has_law ? result.study.law(result.grid.points[group.front()].config) : ""};
}

}  // namespace

std::vector<StudySlope> study_slopes(const StudyResult& result) {
  std::vector<StudySlope> slopes;
  if (!result.has_depth()) return slopes;
  const std::vector<StudyTable>& tables = result.tables(0);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    if (!tables[t].place.empty()) continue;
    for (std::size_t c = 0; c < tables[t].columns.size(); ++c) {
      for (const std::vector<std::size_t>& group : result.groups())
        slopes.push_back(slope_of(result, group, t, c));
    }
  }
  return slopes;
}

}  // namespace attune::cli
