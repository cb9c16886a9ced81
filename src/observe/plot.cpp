#include "attune/observe/plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "observe/gnuplot.h"

namespace attune {
namespace {

using gnuplot::literal;

constexpr std::int64_t kMostTicks = 16;
constexpr std::size_t kMostPlaces = 8;
constexpr std::size_t kMostMarks = 40;  // more points of a series are a line alone
constexpr int kPanelWidth = 440;
// Told apart by people who see red and green alike (Okabe & Ito 2008), yellow left out.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#56b4e9", "#e69f00", "#000000"};
// Of the first series with these colours, the second seven, ...: circles, squares, triangles.
constexpr int kMarks[] = {7, 5, 9};
constexpr int kDashes[] = {1, 4, 5};
constexpr int kPredicted = 2;

[[noreturn]] void fail(const std::string& what) { throw ValueError("picture: " + what); }

bool is_drawn(double value, bool on_log_axis) {
  return std::isfinite(value) && (!on_log_axis || value > 0);
}

double half_width(const PlotSeries& series, std::size_t i) {
  return series.error.empty() || !std::isfinite(series.error[i]) ? 0 : series.error[i];
}

// What a logarithmic axis shows.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  void include(double value) {
    if (!is_drawn(value, true)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] Range widened(double factor) const { return {low / factor, high * factor}; }
};

std::set<double> x_of(const Plot& plot) {
  std::set<double> all;
  for (const PlotSeries& series : plot.series) {
    for (const double x : series.x) {
      if (is_drawn(x, plot.log_x)) all.insert(x);
    }
  }
  return all;
}

Range x_range(const Plot& plot) {
  Range range;
  for (const double x : x_of(plot)) range.include(x);
  return range.widened(1.1);
}

// All points and upper ends of intervals; a lower end may lie infinitely far below.
Range y_range(const Plot& plot) {
  Range range;
  for (const PlotSeries& series : plot.series) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      range.include(series.y[i]);
      if (is_drawn(series.y[i], true)) range.include(series.y[i] + half_width(series, i));
    }
  }
  return range.widened(1.4);
}

// The numbers of these first digits within a range.
std::vector<std::string> round_numbers(const Range& range, const std::vector<double>& digits) {
  std::vector<std::string> texts;
  for (double decade = std::pow(10, std::floor(std::log10(range.low))); decade < range.high;
       decade *= 10) {
    for (const double digit : digits) {
      if (digit * decade >= range.low && digit * decade <= range.high)
        texts.push_back(fmt::format("{:g}", digit * decade));
    }
  }
  return texts;
}

// Powers of ten alone would leave an axis of less than two decades with one number or none.
std::string log_axis(char axis, const Range& range) {
  std::string script = fmt::format("set logscale {}\nset format {} '%g'\n", axis, axis);
  if (!(range.low <= range.high)) return script;
  script +=
      fmt::format("set {}range [{}:{}]\n", axis, format_float(range.low), format_float(range.high));
  if (range.high / range.low >= 100) return script;
  static const std::vector<double> kFew{1, 2, 5}, kMany{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9};
  std::vector<std::string> texts = round_numbers(range, kFew);
  if (texts.size() < 3) texts = round_numbers(range, kMany);
  if (texts.empty()) return script;
  return script + fmt::format("set {}tics ({})\n", axis, fmt::join(texts, ", "));
}

// The rows "x y low high" of a series under the name $s<index>.
std::string data_of(const Plot& plot, const PlotSeries& series, std::size_t index, double lowest) {
  std::string rows = fmt::format("$s{} << EOD\n", index);
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const double x = series.x[i], y = series.y[i];
    if (!is_drawn(x, plot.log_x) || !is_drawn(y, plot.log_y)) continue;
    const double error = half_width(series, i);
    const double low = plot.log_y ? std::max(y - error, lowest) : y - error;
    rows += fmt::format("{} {} {} {}\n", format_float(x), format_float(y), format_float(low),
                        format_float(y + error));
  }
  return rows + "EOD\n";
}

bool holds_a_point(const Plot& plot, const PlotSeries& series) {
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (is_drawn(series.x[i], plot.log_x) && is_drawn(series.y[i], plot.log_y)) return true;
  }
  return false;
}

void check(const PlotSeries& series) {
  if (series.x.size() != series.y.size() ||
      (!series.error.empty() && series.error.size() != series.y.size())) {
    fail(fmt::format("series '{}' has {} x, {} y and {} errors", series.name, series.x.size(),
                     series.y.size(), series.error.size()));
  }
}

std::string axes_of(const Plot& plot) {
  std::string script = fmt::format(
      "reset\nset title {}\nset xlabel {}\nset ylabel {}\nset grid lc rgb '#dddddd' lt 1\n"
      "set border 3\nset tics nomirror\nset key below Left reverse title ' '\n"
      "set autoscale xfix\nset offsets graph 0.03, graph 0.03\n",
      literal(plot.title), literal(plot.x_label), literal(plot.y_label));
  if (plot.log_x) script += log_axis('x', x_range(plot));
  // Few places of a grid are the numbers a reader looks for.
  const std::set<double> x = x_of(plot);
  if (!x.empty() && x.size() <= kMostPlaces)
    script += fmt::format("set xtics ({:g})\n", fmt::join(x, ", "));
  if (plot.log_y) script += log_axis('y', y_range(plot));
  if (plot.series.size() == 1) script += "unset key\n";
  return script;
}

std::string panel(const Plot& plot) {
  std::string script = axes_of(plot);
  std::vector<std::string> lines;
  const double lowest = y_range(plot).low;
  std::size_t colour = 0;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    check(series);
    if (i > 0 && !series.dashed) ++colour;
    if (!holds_a_point(plot, series)) continue;
    script += data_of(plot, series, i, lowest);
    const bool has_errors = std::ranges::any_of(
        series.error, [](double error) { return std::isfinite(error) && error > 0; });
    const bool is_crowded = series.x.size() > kMostMarks;
    const char* style = series.dashed || is_crowded ? "using 1:2 with lines"
                        : has_errors                ? "using 1:2:3:4 with yerrorlines"
                                                    : "using 1:2 with linespoints";
    const std::size_t turn = colour / std::size(kColours) % std::size(kMarks);
    lines.push_back(fmt::format("$s{} {} lw 1.6 pt {} ps 0.5 dt {} lc rgb '{}' title {}", i, style,
                                kMarks[turn], series.dashed ? kPredicted : kDashes[turn],
                                kColours[colour % std::size(kColours)], literal(series.name)));
  }
  // An empty panel keeps its place and its title.
  if (lines.empty()) return script + "set xrange [0:1]\nset yrange [0.1:1]\nplot NaN notitle\n";
  return script + fmt::format("plot {}\n", fmt::join(lines, ", "));
}

// Texts at so many places that they do not overlap.
std::string ticks(char axis, const std::vector<std::string>& texts, std::int64_t count) {
  const std::int64_t stride = (count + kMostTicks - 1) / kMostTicks;
  std::vector<std::string> entries;
  for (std::int64_t i = 0; i < count; i += std::max<std::int64_t>(stride, 1)) {
    const std::string text = texts.empty() ? std::to_string(i) : texts[static_cast<std::size_t>(i)];
    entries.push_back(fmt::format("{} {}", literal(text), i));
  }
  return fmt::format("set {}tics ({}) scale 0\n", axis, fmt::join(entries, ", "));
}

void check(const HeatMap& map) {
  const auto fits = [](const std::vector<std::string>& texts, std::int64_t count) {
    return texts.empty() || static_cast<std::int64_t>(texts.size()) == count;
  };
  if (map.rows < 1 || map.columns < 1 ||
      static_cast<std::int64_t>(map.values.size()) != map.rows * map.columns)
    fail(fmt::format("heat map '{}' of {} x {} has {} values", map.title, map.rows, map.columns,
                     map.values.size()));
  if (!fits(map.x_ticks, map.columns) || !fits(map.y_ticks, map.rows))
    fail(fmt::format("heat map '{}' of {} x {} has {} texts below and {} on the left", map.title,
                     map.rows, map.columns, map.x_ticks.size(), map.y_ticks.size()));
  if (!(map.low < map.high))
    fail(fmt::format("heat map '{}': the colours go from {} to {}", map.title, map.low, map.high));
}

std::string panel(const HeatMap& map) {
  check(map);
  std::string script = fmt::format(
      "reset\nset title {}\nset xlabel {}\nset ylabel {}\nunset key\nset border 15\n"
      "set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', 4 '#fde725')\n"
      "set xrange [-0.5:{}]\nset yrange [{}:-0.5]\nset cbrange [{}:{}]\n",
      literal(map.title), literal(map.x_label), literal(map.y_label),
      static_cast<double>(map.columns) - 0.5, static_cast<double>(map.rows) - 0.5,
      format_float(map.low), format_float(map.high));
  script += ticks('x', map.x_ticks, map.columns) + ticks('y', map.y_ticks, map.rows);
  const bool is_crowded = std::ranges::any_of(
      map.x_ticks, [&](const std::string& text) { return text.size() > 2 && map.columns > 8; });
  if (is_crowded) script += "set xtics rotate by -60\n";
  script += "$m << EOD\n";
  for (std::int64_t r = 0; r < map.rows; ++r) {
    for (std::int64_t c = 0; c < map.columns; ++c) {
      const double value = map.values[static_cast<std::size_t>(r * map.columns + c)];
      script += (std::isfinite(value) ? format_float(value) : "NaN") + " ";
    }
    script += "\n";
  }
  return script + "EOD\nplot $m matrix using 1:2:3 with image pixels\n";
}

// Pixels that the names of the series take below the panel, about.
int legend_height(const Plot& plot) {
  std::size_t widest = 0;
  for (const PlotSeries& series : plot.series)
    widest = std::max(widest, decode_utf8(series.name, nullptr).size());
  const std::size_t in_a_row =
      std::max<std::size_t>(1, static_cast<std::size_t>(kPanelWidth) / (70 + 7 * widest));
  return static_cast<int>(10 + 16 * ((plot.series.size() + in_a_row - 1) / in_a_row));
}

int rows_for(std::size_t panels, int columns) {
  return (static_cast<int>(panels) + columns - 1) / columns;
}

}  // namespace

void draw(std::span<const Plot> panels, const std::filesystem::path& file) {
  if (panels.empty()) fail("no panel");
  const int most = panels.size() == 4 ? 2 : 3;
  const int columns = std::min(static_cast<int>(panels.size()), most);
  int legend = 0;
  for (const Plot& plot : panels) legend = std::max(legend, legend_height(plot));
  std::string script =
      gnuplot::begin(file, rows_for(panels.size(), columns), columns, kPanelWidth, 350 + legend);
  for (const Plot& plot : panels) script += panel(plot);
  gnuplot::run(script, file);
}

void draw(std::span<const HeatMap> panels, int per_row, const std::filesystem::path& file) {
  if (panels.empty()) fail("no panel");
  if (per_row < 1) fail(fmt::format("{} panels in a row", per_row));
  const int columns = std::min(static_cast<int>(panels.size()), per_row);
  std::string script = gnuplot::begin(file, rows_for(panels.size(), columns), columns, 360, 320);
  for (const HeatMap& map : panels) script += panel(map);
  gnuplot::run(script, file);
}

}  // namespace attune
