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
    "A curve shows at most 600 points: the first, the last, and of each of 300 equal parts of the records the smallest and "
    "the largest; charts of many series have fewer parts. A cell of a heat map shows the lowest entropy, or the largest "
    "gradient, of its span. A head has collapsed where its entropy is below 0.05 in three records in a row within the first "
    "tenth of the steps; verdicts come from all records.";

std::string heading_of(std::span<const ReportRun> runs) {
  if (runs.size() > 1) return fmt::format("{} runs side by side", runs.size());
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
