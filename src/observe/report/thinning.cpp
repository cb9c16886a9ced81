#include "observe/report/thinning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace attune {
namespace {

// Adds the smallest and the largest of records [begin, end), in their order.
void add_extremes(const StepSeries& series, std::size_t begin, std::size_t end, StepSeries& kept) {
  std::size_t least = begin, largest = begin;
  const auto& values = series.values;
  for (std::size_t i = begin; i < end; ++i) {
    if (std::isnan(values[least]) || values[i] < values[least]) least = i;
    if (std::isnan(values[largest]) || values[i] > values[largest]) largest = i;
  }
  const auto [first, second] = std::minmax(least, largest);
  kept.add(series.steps[first], values[first]);
  if (second != first) kept.add(series.steps[second], values[second]);
}

}  // namespace

StepSeries thinned(const StepSeries& series, std::size_t most) {
  const std::size_t count = series.steps.size();
  if (count <= most) return series;
  StepSeries kept;
  kept.add(series.steps.front(), series.values.front());
  const std::size_t parts = (most - 2) / 2;
  const std::size_t between = count - 2;
  for (std::size_t part = 0; part < parts; ++part) {
    add_extremes(series, 1 + part * between / parts, 1 + (part + 1) * between / parts, kept);
  }
  kept.add(series.steps.back(), series.values.back());
  return kept;
}

SpanTable span_table(const std::vector<const StepSeries*>& rows, std::size_t most,
                     Extreme extreme) {
  std::set<double> distinct;
  for (const StepSeries* row : rows) distinct.insert(row->steps.begin(), row->steps.end());
  const std::vector<double> steps(distinct.begin(), distinct.end());
  SpanTable table;
  if (steps.empty()) return table;
  const std::size_t columns = std::min(most, steps.size());
  for (std::size_t c = 0; c < columns; ++c) {
    table.begins.push_back(steps[c * steps.size() / columns]);
  }
  // The last span is as wide as the one before it.
  const double width = columns > 1 ? table.begins[columns - 1] - table.begins[columns - 2] : 1;
  table.end = std::max(steps.back(), table.begins.back() + width);
  for (const StepSeries* row : rows) {
    std::vector<double>& values =
        table.values.emplace_back(columns, std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < row->steps.size(); ++i) {
      const auto after = std::ranges::upper_bound(table.begins, row->steps[i]);
      double& cell = values[static_cast<std::size_t>(after - table.begins.begin()) - 1];
      const double value = row->values[i];
      const bool stands = extreme == Extreme::smallest ? cell <= value : cell >= value;
      if (!stands && !std::isnan(value)) cell = value;
    }
  }
  return table;
}

}  // namespace attune
