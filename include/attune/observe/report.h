#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attune/observe/report_run.h"

namespace attune {

// What one look at a run should tell: did it learn, did a head collapse, when.
struct Verdict {
  enum class Tone { good, warning, bad, unknown };
  Tone tone = Tone::unknown;
  std::optional<bool> learned;            // nothing: not known
  std::optional<std::int64_t> collapsed;  // heads; nothing: not known
  std::string learning;                   // one sentence
  std::string heads;                      // one sentence
  std::vector<std::string> remarks;       // further sentences, such as a rising validation loss
};

// Rules, on all records of the logs:
// - learned: the loss (of the validation split where there are two evaluations, else of training)
//   fell by a tenth of its first value or more; solved: the last share of right answers is at least
//   0.99. A status of diverged or stalled stands over both.
// - a head collapsed: normalised entropy below 0.05 in three records in a row within the first
// tenth
//   of max-iters (of the steps made, where there is no configuration). Later it is sharp, which is
//   how heads that copy or look one token back work.
// - a head is uniform: above 0.98 at the last record.
// - rising: the last validation loss is above the smallest by a fiftieth of it and 0.02 nats.
[[nodiscard]] Verdict verdict_of(const ReportRun& run);

// First step of the first three records in a row, none after step `until`, below `threshold`; NaN:
// there are none.
[[nodiscard]] double first_step_below(const StepSeries& series, double threshold,
                                      double until = std::numeric_limits<double>::infinity());

// Whether this build holds the charting library that pages embed: src/observe/report/embed.cmake,
// ATTUNE_VEGA_DIR.
[[nodiscard]] bool can_make_reports();

// One HTML page that needs nothing beside itself. A chart shows at most 600 points of a series: the
// smallest and the largest of each of 300 equal parts of its records, and the first and the last.
// Where a chart has many series, or a heat map many records, there are fewer parts: at most 12,000
// points and 12,000 cells; a cell holds the lowest entropy (the largest gradient) of its part.
// Throws UsageError where can_make_reports() is false.
[[nodiscard]] std::string report_page(std::span<const ReportRun> runs);

// How each page begins, by which a report is known from other files.
inline constexpr std::string_view kReportMark = "<!doctype html>\n<!-- attune report -->\n";

}  // namespace attune
