#include "attune/observe/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/core/version.h"
#include "observe/report/assets.h"
#include "observe/report/html.h"
#include "observe/report/page_data.h"
#include "observe/report/tables.h"

namespace attune {
namespace {

constexpr std::string_view kRules =
    "A curve shows at most 600 points: the first, the last, and of each of 300 equal parts of the "
    "records the smallest and "
    "the largest; charts of many series have fewer parts. A cell of a heat map shows the lowest "
    "entropy, or the largest "
    "gradient, of its span. A head has collapsed where its entropy is below 0.05 in three records "
    "in a row within the first "
    "tenth of the steps; verdicts come from all records.";

// "3 runs side by side: 2 learned, a head collapsed in 1."
std::string heading_of_several(std::span<const ReportRun> runs) {
  std::int64_t learned = 0, collapsed = 0, unknown = 0;
  for (const ReportRun& run : runs) {
    const Verdict verdict = verdict_of(run);
    learned += verdict.learned.value_or(false);
    collapsed += verdict.collapsed.value_or(0) > 0;
    unknown += !verdict.learned || !verdict.collapsed;
  }
  const std::string which = learned == std::ssize(runs) ? "all" : fmt::to_string(learned);
  return fmt::format(
      "{} runs side by side: {} learned, {}{}.", runs.size(), learned == 0 ? "none" : which,
      collapsed == 0 ? "no head collapsed" : fmt::format("a head collapsed in {}", collapsed),
      unknown == 0 ? "" : fmt::format("; of {} not all is known", unknown));
}

std::string heading_of(std::span<const ReportRun> runs) {
  if (runs.size() > 1) return heading_of_several(runs);
  const Verdict verdict = verdict_of(runs.front());
  return verdict.learning + " " + verdict.heads;
}

std::string title_of(std::span<const ReportRun> runs) {
  const std::vector<std::string> names = short_names(runs);
  return runs.size() == 1 ? fmt::format("{} - attune report", names.front())
                          : fmt::format("{} runs - attune report", names.size());
}

}  // namespace

bool can_make_reports() { return !report_assets::library().empty(); }

std::string report_page(std::span<const ReportRun> runs) {
  if (runs.empty()) throw UsageError("report_page: no run is given");
  if (!can_make_reports()) {
    throw UsageError("report_page: this build holds no charting library");
  }
  const std::string library(report_assets::library());
  const std::string script(report_assets::script());
  const std::vector<std::pair<std::string_view, std::string>> values = {
      {"hashes", fmt::format("'{}' '{}'", script_hash(library), script_hash(script))},
      {"title", html_text(title_of(runs))},
      {"heading", html_text(heading_of(runs))},
      {"style", std::string(report_assets::style())},
      {"cards", report_tables::cards(runs)},
      {"alarms", report_tables::alarms(runs)},
      {"configuration", report_tables::configuration(runs)},
      {"files", report_tables::files(runs)},
      {"version", html_text(kVersion)},
      {"rules", html_text(kRules)},
      {"specs", json_in_script(report_assets::specs())},
      {"data", json_in_script(page_data(runs))},
      {"library", library},
      {"script", script},
  };
  return std::string(kReportMark) + filled_in(report_assets::page(), values);
}

}  // namespace attune
