#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/observe/report_run.h"

namespace attune {

// Runs as charts name them: the last part of their paths where that tells them apart.
[[nodiscard]] std::vector<std::string> short_names(std::span<const ReportRun> runs);
// The colour of run `index`, "#rrggbb".
[[nodiscard]] std::string_view run_color(std::size_t index);

// What the page's script shows, as JSON: charts over all runs, and for each run its own charts and
// attention maps. A chart is {kind: "lines", series: [{label, x, y, ...}], ...},
// {kind: "heat", rows, begins, end, values, ...} or {missing: why}; page.js says what it reads.
[[nodiscard]] std::string page_data(std::span<const ReportRun> runs);

}  // namespace attune
