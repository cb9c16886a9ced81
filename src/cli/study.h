#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attune/observe/study_statistics.h"
#include "attune/task/task.h"
#include "attune/train/run_config.h"
#include "cli/arguments.h"

// The frame of `attune study`: options given as lists span a grid; a study measures each of its
// points with several seeds; the frame makes means and intervals, tables, lines and pictures.
namespace attune::cli {

// What one grid point and seed gave. All points give the same tables, all seeds of a point the same
// rows and columns; points may differ in them, such as with and without biases.
struct StudyTable {
  std::string name;                  // "layers"
  std::string place;                 // what its rows are: "layer"; empty: one row without a place
  std::vector<std::string> columns;  // names as in the lines: "entropy_norm"
  struct Row {
    std::string place;
    std::vector<double> values;
  };
  std::vector<Row> rows;
  std::vector<std::string> shown{};  // columns on a terminal; empty: all
  bool is_long = false;              // not on a terminal at all
};

// What a study reads: a configuration with its seed, its task, the options of its own.
struct StudyContext {
  const RunConfig& config;
  const Task& task;
  const Arguments& arguments;
};

// A panel of the picture: columns of a table over its places, or over the numbers of the depth
// option; a line for each grid point.
struct StudyPanel {
  std::string table, title, y_label;
  std::vector<std::string> columns;
  bool log_x = false, log_y = false;
  bool over_depth = false;
};

struct Study {
  std::string name;
  std::string summary;              // one line
  std::string description;          // of the help text
  std::string task;                 // where none is given
  bool trains = false;              // takes options of training too
  std::vector<std::string> only{};  // the training options it takes; empty: those of its kind
  std::int64_t seeds = 5;
  // Values of training options that differ from those of the task, lists as well.
  std::vector<std::pair<std::string, std::string>> defaults{};
  std::vector<CommandOption> options{};  // its own
  std::function<std::vector<StudyTable>(const StudyContext&)> measure;
  std::vector<StudyPanel> panels{};
  // Set: columns of tables without places are fitted as powers of this option over its list.
  std::string depth{};
  std::function<std::string(const RunConfig&)> law{};  // the exponent expected of a configuration
};
[[nodiscard]] const std::vector<Study>& studies();
// Its parts.
[[nodiscard]] std::vector<Study> studies_of_initialisation();
[[nodiscard]] std::vector<Study> studies_of_training();

// A number of a study's own option. Throws ConfigError naming it.
[[nodiscard]] double study_number(const Arguments& arguments, const Study& study,
                                  std::string_view name, double low, double high);
[[nodiscard]] std::int64_t study_count(const Arguments& arguments, const Study& study,
                                       std::string_view name, std::int64_t low, std::int64_t high);
[[nodiscard]] std::vector<double> study_numbers(const Arguments& arguments, const Study& study,
                                                std::string_view name, double low, double high);
// "2,4,8" in its parts. Throws ConfigError for an empty one.
[[nodiscard]] std::vector<std::string> split_list(std::string_view option, std::string_view text);

// One point of the grid.
struct GridPoint {
  std::vector<std::string> values;  // of the axes, in their order
  RunConfig config;                 // resolved, with the first seed
  const Task* task = nullptr;
};
struct Grid {
  struct Axis {
    std::string option;  // "n-layer"
    std::vector<std::string> values;
  };
  std::vector<Axis> axes;  // options given as a list of two or more
  std::vector<GridPoint> points;
  std::vector<std::unique_ptr<Task>> tasks;
};
// The options of `attune train` that a study takes.
[[nodiscard]] std::vector<Option> grid_options(const Study& study);
// Throws ConfigError where a value is wrong or the grid is too large.
[[nodiscard]] Grid make_grid(const Study& study, const std::string& task,
                             const Arguments& arguments);

// What a study found: measurements by point and seed, and their intervals.
struct StudyResult {
  const Study& study;
  const Grid& grid;
  std::int64_t first_seed = 0;
  std::int64_t seeds = 0;
  std::vector<std::vector<StudyTable>> measured;  // [point * seeds + seed][table]

  // Of a table, of all points together.
  [[nodiscard]] std::vector<std::string> columns(std::size_t table) const;
  // Of a place of a point's table; kNoFigure where the point does not have the column.
  [[nodiscard]] double value(std::size_t point, std::size_t seed, std::size_t table,
                             std::size_t row, const std::string& column) const;
  [[nodiscard]] Interval interval(std::size_t point, std::size_t table, std::size_t row,
                                  const std::string& column) const;
  // The first measurement's tables of a point.
  [[nodiscard]] const std::vector<StudyTable>& tables(std::size_t point) const;
  // Points that differ in nothing but the depth option, shallow to deep, side by side.
  [[nodiscard]] std::vector<std::vector<std::size_t>> groups() const;
  [[nodiscard]] bool has_depth() const;  // whether the depth option spans an axis
  [[nodiscard]] double depth_of(std::size_t point) const;
};

// One exponent for each set of points that differ in nothing but the depth option.
struct StudySlope {
  std::size_t point;  // one of them
  std::string table, column;
  Interval exponent;  // over seeds
  std::string law;
};
[[nodiscard]] std::vector<StudySlope> study_slopes(const StudyResult& result);

[[nodiscard]] std::string study_text(const StudyResult& result);
void write_study_lines(const StudyResult& result, const std::string& command_line,
                       const std::filesystem::path& file);
void draw_study(const StudyResult& result, const std::filesystem::path& file);

}  // namespace attune::cli
