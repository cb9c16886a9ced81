#include "attune/observe/profile_table.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "attune/core/text.h"

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

}  // namespace

std::string profile_table(const RunProfile& profile, ProfileTable by) {
  if (by == ProfileTable::off) return "";
  const bool by_op = by == ProfileTable::op;
  std::vector<RunProfile::Row> rows = by_op ? profile.by_op() : profile.by_module();
  std::erase_if(rows, [](const RunProfile::Row& row) { return row.is_phase && row.seconds == 0; });
  RunProfile::Row total{"total", false, {}, 0};
  std::size_t width = 0;
  for (const RunProfile::Row& row : rows) {
    total.cost += row.cost;
    total.seconds += row.seconds;
    width = std::max(width, name_of(row).size());
  }
  const auto line = [&](std::string_view name, std::string_view calls, std::string_view forward,
                        std::string_view backward, std::string_view time, std::string_view bytes,
                        std::string_view share) {
    return fmt::format("{:<{}}  {:>11}  {:>12}  {:>12}  {:>12}  {:>10}  {:>7}\n", name, width,
                       calls, forward, backward, time, bytes, share);
  };
  const auto milliseconds = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e3); };
  const auto line_of = [&](const RunProfile::Row& row) {
    const double share = total.seconds > 0 ? row.seconds / total.seconds : 0;
    const std::string time = milliseconds(row.seconds);
    const std::string percent = fmt::format("{:.1f} %", 100 * share);
    if (row.is_phase) return line(name_of(row), "", "", "", time, "", percent);
    return line(row.name, format_count(row.cost.calls), milliseconds(row.cost.forward_seconds),
                milliseconds(row.cost.backward_seconds), time, bytes_text(row.cost.output_bytes),
                percent);
  };
  std::string table = heading(profile) + line(by_op ? "op" : "module", "calls", "forward ms",
                                              "backward ms", "ms", "bytes", "share");
  for (const RunProfile::Row& row : rows) table += line_of(row);
  return table + line_of(total);
}

}  // namespace attune
