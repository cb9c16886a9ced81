#include <algorithm>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/observe/plot.h"
#include "cli/study.h"

namespace attune::cli {
namespace {

std::string spaced(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

// A grid point without its depth.
std::string label_of(const StudyResult& result, std::size_t point) {
  std::string label;
  for (std::size_t a = 0; a < result.grid.axes.size(); ++a) {
    if (result.grid.axes[a].option == result.study.depth) continue;
    if (!label.empty()) label += ", ";
    const std::string& value = result.grid.points[point].values[a];
    // A bare number, on or off says nothing.
    const bool speaks = !parse_float(value) && !parse_bool(value) && value != "none";
    label += speaks ? value : result.grid.axes[a].option + " " + value;
  }
  return label.empty() ? result.study.name : label;
}

void add_point_to(PlotSeries& series, double x, const Interval& interval) {
  series.x.push_back(x);
  series.y.push_back(interval.mean);
  series.error.push_back(interval.half_width);
}

PlotSeries series_over_places(const StudyResult& result, std::size_t point, std::size_t t,
                              const std::string& column) {
  PlotSeries series;
  const StudyTable& table = result.tables(point)[t];
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    add_point_to(series, parse_float(table.rows[r].place).value_or(static_cast<double>(r)),
                 result.interval(point, t, r, column));
  return series;
}

Plot plot_of(const StudyResult& result, const StudyPanel& panel) {
  const std::vector<StudyTable>& tables = result.tables(0);
  std::size_t t = 0;
  while (tables.at(t).name != panel.table) ++t;
  const std::string x_label = spaced(panel.over_depth ? result.study.depth : tables[t].place);
  Plot plot{panel.title, x_label, panel.y_label, panel.log_x, panel.log_y, {}};
  const std::vector<std::string> columns = result.columns(t);
  for (const std::vector<std::size_t>& group : result.groups()) {
    for (const std::string& name : panel.columns) {
      if (std::ranges::count(columns, name) == 0)
        throw InternalError("study: no column " + name + " in " + panel.table);
      PlotSeries series;
      if (panel.over_depth) {
        for (const std::size_t p : group)
          add_point_to(series, result.depth_of(p), result.interval(p, t, 0, name));
      } else {
        series = series_over_places(result, group.back(), t, name);
      }
      series.name = label_of(result, group.front());
      if (panel.columns.size() > 1)
        series.name = (result.groups().size() > 1 ? series.name + ": " : "") + spaced(name);
      series.dashed = name.starts_with("predicted");
      plot.series.push_back(std::move(series));
    }
  }
  return plot;
}

}  // namespace

void draw_study(const StudyResult& result, const std::filesystem::path& file) {
  std::vector<Plot> plots;
  for (const StudyPanel& panel : result.study.panels) {
    if (!panel.over_depth || result.has_depth()) plots.push_back(plot_of(result, panel));
  }
  draw(plots, file);
}

}  // namespace attune::cli
