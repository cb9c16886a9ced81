#pragma once

#include <span>
#include <string>

#include "attune/observe/report_run.h"

// The parts of a page that need no chart, as HTML; whatever comes from a run is escaped.
namespace attune::report_tables {

// A card for each run: verdict, status, key figures.
[[nodiscard]] std::string cards(std::span<const ReportRun> runs);
// Empty where there is none.
[[nodiscard]] std::string alarms(std::span<const ReportRun> runs);
// What differs between runs, then every setting of each.
[[nodiscard]] std::string configuration(std::span<const ReportRun> runs);
// What each file would show, whether it is there, and how many lines were skipped.
[[nodiscard]] std::string files(std::span<const ReportRun> runs);

}  // namespace attune::report_tables
