#include "attune/observe/profile_table.h"

#include <vector>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/text_table.h"

namespace attune {
namespace {

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string heading(const RunProfile& profile) {
  std::string text = fmt::format("profile of {}", format_duration(profile.elapsed_seconds()));
  if (profile.threads() > 1) {
    text += fmt::format(
        " on {} threads, whose times are added up; operations: CPU time over all shards",
        profile.threads());
  }
  return text + "; (in parentheses: no operation)\n";
}

std::string name_of(const RunProfile::Row& row) {
  return row.is_phase ? "(" + row.name + ")" : row.name;
}

std::string milliseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e3); }

// A row's cells; those of `values` where sizes of outputs and gradients were measured.
std::vector<std::string> cells(const RunProfile::Row& row, double all_seconds, bool values) {
  const double share = all_seconds > 0 ? row.seconds / all_seconds : 0;
  const bool op = !row.is_phase;
  std::vector<std::string> cells = {name_of(row),
                                    op ? format_count(row.cost.calls) : "",
                                    op ? milliseconds(row.cost.forward_seconds) : "",
                                    op ? milliseconds(row.cost.backward_seconds) : "",
                                    milliseconds(row.seconds),
                                    op ? bytes_text(row.cost.output_bytes) : "",
                                    fmt::format("{:.1f} %", 100 * share)};
  if (values) {
    cells.push_back(op ? fmt::format("{:.3g}", row.output_rms) : "");
    cells.push_back(op ? fmt::format("{:.3g}", row.gradient_norm) : "");
  }
  return cells;
}

}  // namespace

std::string profile_table(const RunProfile& profile, ProfileTable by) {
  if (by == ProfileTable::off) return "";
  const bool by_op = by == ProfileTable::op;
  std::vector<RunProfile::Row> rows = by_op ? profile.by_op() : profile.by_module();
  std::erase_if(rows, [](const RunProfile::Row& row) { return row.is_phase && row.seconds == 0; });
  RunProfile::Row total{.name = "total", .cost = {}};
  for (const RunProfile::Row& row : rows) {
    total.cost += row.cost;
    total.seconds += row.seconds;
  }
  const bool values = profile.measures_values();
  std::vector<std::string> columns = {
      by_op ? "op" : "module", "calls", "forward ms", "backward ms", "ms", "bytes", "share"};
  if (values) columns.insert(columns.end(), {"output rms", "grad norm"});
  TextTable table(std::move(columns));
  for (const RunProfile::Row& row : rows) table.add(cells(row, total.seconds, values));
  std::vector<std::string> last = cells(total, total.seconds, false);
  if (values) last.resize(last.size() + 2);  // sizes of different things have no sum
  table.add(std::move(last));
  return heading(profile) + table.text();
}

}  // namespace attune
