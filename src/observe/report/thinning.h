#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "attune/observe/report_run.h"

namespace attune {

// At most `most` points (4 or more) of a series, in order: the first, the last, and of each of
// equal parts of the records between them the smallest and the largest. A NaN, a gap in the curve,
// stays where a part holds nothing else.
[[nodiscard]] StepSeries thinned(const StepSeries& series, std::size_t most);

// Several series over common spans of time: row r, column c holds one value of series r in span c.
struct SpanTable {
  std::vector<double> begins;               // [columns]: first step of each span
  double end = 0;                           // of the last span
  std::vector<std::vector<double>> values;  // [rows][columns]; NaN: none
};
enum class Extreme : std::uint8_t { smallest, largest };

// The steps of all series together in at most `most` equal spans, each with the extreme value of a
// series in it.
[[nodiscard]] SpanTable span_table(const std::vector<const StepSeries*>& rows, std::size_t most,
                                   Extreme extreme);

}  // namespace attune
