#include "observe/report/tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/report.h"
#include "observe/report/html.h"
#include "observe/report/page_data.h"

namespace attune::report_tables {
namespace {

std::string_view tone_class(Verdict::Tone tone) {
  switch (tone) {
    case Verdict::Tone::good:
      return "good";
    case Verdict::Tone::warning:
      return "warning";
    case Verdict::Tone::bad:
      return "bad";
    case Verdict::Tone::unknown:
      break;
  }
  return "unknown";
}

std::string count_text(double value) { return format_count(static_cast<std::int64_t>(value)); }

// The last finite value of a metric.
std::optional<double> last_of(const ReportRun& run, const char* field) {
  const StepSeries* series = run.metric(field);
  for (std::size_t i = series == nullptr ? 0 : series->values.size(); i > 0; --i) {
    if (std::isfinite(series->values[i - 1])) return series->values[i - 1];
  }
  return std::nullopt;
}

std::optional<double> last_step(const ReportRun& run) {
  if (run.summary.steps) return run.summary.steps;
  std::optional<double> last;
  for (const auto& [field, series] : run.metrics) {
    last = std::max(last.value_or(0), series.steps.back());
  }
  return last;
}

std::string fact(std::string_view name, const std::optional<std::string>& value) {
  return fmt::format("<div><dt>{}</dt><dd{}>{}</dd></div>\n", name, value ? "" : " class=\"none\"",
                     value ? html_text(*value) : "missing");
}

template <class Format>
std::optional<std::string> shown(const std::optional<double>& value, Format format) {
  return value ? std::optional<std::string>(format(*value)) : std::nullopt;
}

std::string facts(const ReportRun& run) {
  const auto nats = [](double value) { return fmt::format("{:.4f}", value); };
  const auto percent = [](double value) { return fmt::format("{:.1f} %", 100 * value); };
  std::optional<double> seconds = run.summary.elapsed_seconds;
  if (!seconds) seconds = last_of(run, "elapsed_seconds");
  std::string html = "<dl class=\"facts\">\n";
  html += fact("steps", shown(last_step(run), count_text));
  html += fact("validation loss", shown(last_of(run, "val_loss"), nats));
  html += fact("smallest loss", shown(run.summary.best_val_loss, nats));
  if (run.metric("val_exact") != nullptr) {
    html += fact("answers right", shown(last_of(run, "val_exact"), percent));
  } else {
    html += fact("accuracy", shown(last_of(run, "val_accuracy"), percent));
  }
  html += fact("parameters", shown(run.summary.parameters, count_text));
  html += fact("time", shown(seconds, format_duration));
  return html + "</dl>\n";
}

std::string card(const ReportRun& run, std::size_t index, bool has_heading) {
  const Verdict verdict = verdict_of(run);
  const std::string status = run.summary.status.empty() ? "no summary" : run.summary.status;
  std::string html = fmt::format(
      "<article class=\"card\" style=\"--run:{}\">\n<span class=\"status {}\">{}</span>\n"
      "<h3>{}</h3>\n",
      run_color(index), tone_class(verdict.tone), html_text(status), html_text(run.name));
  if (!has_heading) {
    html += fmt::format("<p>{} {}</p>\n", html_text(verdict.learning), html_text(verdict.heads));
  }
  for (const std::string& remark : verdict.remarks) {
    html += fmt::format("<p class=\"remark\">{}</p>\n", html_text(remark));
  }
  if (run.summary.status.empty()) {
    html +=
        "<p class=\"remark\">There is no summary: the run goes on, or it was ended from "
        "outside.</p>\n";
  } else if (!run.summary.message.empty()) {
    html += fmt::format("<p class=\"remark\">{}</p>\n", html_text(run.summary.message));
  }
  return html + facts(run) + "</article>\n";
}

std::string run_cell(std::span<const ReportRun> runs, std::size_t index) {
  return fmt::format("<span class=\"chip\" style=\"--run:{}\"></span>{}", run_color(index),
                     html_text(short_names(runs)[index]));
}

std::string index_text(const std::optional<std::int64_t>& index) {
  return index ? std::to_string(*index) : "";
}

// The value of each setting in each run; empty where a run has none.
std::map<std::string, std::vector<std::string>> values_by_setting(std::span<const ReportRun> runs) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const ReportRun::Setting& setting : runs[i].settings) {
      auto& row = values[setting.name];
      row.resize(runs.size());
      row[i] = setting.value;
    }
  }
  return values;
}

std::string differences(std::span<const ReportRun> runs) {
  const auto values = values_by_setting(runs);
  std::string rows;
  for (const ReportRun::Setting& setting : runs.front().settings) {
    const std::vector<std::string>& row = values.at(setting.name);
    if (std::ranges::count(row, row.front()) == std::ssize(row)) continue;
    rows += fmt::format("<tr><td><code>{}</code></td>", html_text(setting.name));
    for (const std::string& value : row) {
      rows += fmt::format("<td class=\"value\">{}</td>", html_text(value));
    }
    rows += "</tr>\n";
  }
  if (rows.empty())
    return "<p id=\"differences\">The configurations of these runs are equal.</p>\n";
  std::string head = "<tr><th>option</th>";
  for (std::size_t i = 0; i < runs.size(); ++i)
    head += fmt::format("<th>{}</th>", run_cell(runs, i));
  return fmt::format(
      "<div class=\"wide\"><table id=\"differences\"><caption>What "
      "differs</caption>\n<thead>{}</tr>"
      "</thead>\n<tbody>{}</tbody></table></div>\n",
      head, rows);
}

std::string settings(const ReportRun& run) {
  std::string html = "<div class=\"settings\">\n";
  std::string group;
  for (const ReportRun::Setting& setting : run.settings) {
    if (setting.group != group) {
      if (!group.empty()) html += "</table></section>\n";
      group = setting.group;
      html += fmt::format("<section><h4>{}</h4><table>\n", html_text(group));
    }
    html += fmt::format("<tr><td><code>{}</code></td><td class=\"value\">{}</td></tr>\n",
                        html_text(setting.name), html_text(setting.value));
  }
  return html + "</table></section>\n</div>\n";
}

std::string config_problem(const ReportRun& run) {
  for (const ReportRun::File& file : run.files) {
    if (file.name == "config.toml" && !file.problem.empty()) return file.problem;
  }
  return "there is no config.toml";
}

}  // namespace

std::string cards(std::span<const ReportRun> runs) {
  std::string html = "<div class=\"cards\">\n";
  for (std::size_t i = 0; i < runs.size(); ++i) html += card(runs[i], i, runs.size() == 1);
  return html + "</div>";
}

std::string alarms(std::span<const ReportRun> runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const ReportRun::Alarm& alarm : runs[i].alarms) {
      if (runs.size() > 1) rows += fmt::format("<tr><td>{}</td>", run_cell(runs, i));
      rows += fmt::format(
          "{}<td class=\"number\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
          runs.size() > 1 ? "" : "<tr>", count_text(alarm.step), html_text(alarm.kind),
          index_text(alarm.layer), index_text(alarm.head), html_text(alarm.message));
    }
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<section class=\"alarms\" id=\"alarms\">\n<h2>Alarms</h2>\n<div "
      "class=\"wide\"><table><thead>"
      "<tr>{}<th>step</th><th>kind</th><th>layer</th><th>head</th><th>message</th></tr></thead>\n"
      "<tbody>{}</tbody></table></div>\n</section>",
      runs.size() > 1 ? "<th>run</th>" : "", rows);
}

std::string configuration(std::span<const ReportRun> runs) {
  std::string html;
  const bool all_known =
      std::ranges::none_of(runs, [](const ReportRun& run) { return run.settings.empty(); });
  if (runs.size() > 1 && all_known) html += differences(runs);
  const std::vector<std::string> names = short_names(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string of = runs.size() > 1 ? " of " + html_text(names[i]) : "";
    if (runs[i].settings.empty()) {
      html += fmt::format("<p class=\"missing\">Missing: the configuration{}: {}</p>\n", of,
                          html_text(config_problem(runs[i])));
      continue;
    }
    html += fmt::format("<details><summary>Every option{}</summary>\n{}</details>\n", of,
                        settings(runs[i]));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].summary.command_line.empty()) continue;
    html += fmt::format("<p><code>{}</code></p>\n", html_text(runs[i].summary.command_line));
  }
  return html;
}

std::string files(std::span<const ReportRun> runs) {
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const ReportRun::File& file : runs[i].files) {
      std::string state = file.found ? "there" : "not there";
      if (!file.problem.empty()) state = file.problem;
      if (file.skipped > 0) {
        state = fmt::format("{} of {} lines skipped: torn, damaged or out of order",
                            format_count(file.skipped), format_count(file.lines));
      } else if (file.lines > 0) {
        state = fmt::format("{} line{}", format_count(file.lines), file.lines == 1 ? "" : "s");
      }
      rows += fmt::format("<tr>{}<td><code>{}</code></td><td>{}</td><td{}>{}</td></tr>\n",
                          runs.size() > 1 ? fmt::format("<td>{}</td>", run_cell(runs, i)) : "",
                          html_text(file.name), html_text(file.holds),
                          file.skipped > 0 || !file.problem.empty() ? " class=\"warning\"" : "",
                          html_text(state));
    }
  }
  return fmt::format(
      "<div class=\"wide\"><table id=\"files\"><thead><tr>{}<th>file</th><th>for</th><th>state</th>"
      "</tr></thead>\n<tbody>{}</tbody></table></div>\n",
      runs.size() > 1 ? "<th>run</th>" : "", rows);
}

}  // namespace attune::report_tables
