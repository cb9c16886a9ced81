#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/report.h"

namespace attune {
namespace {

constexpr double kCollapsed = 0.05;
constexpr double kUniform = 0.98;
constexpr std::size_t kRecords = 3;

std::string steps_text(double steps) { return format_count(static_cast<std::int64_t>(steps)); }

// The finite points of a series.
StepSeries finite(const StepSeries* series) {
  StepSeries kept;
  for (std::size_t i = 0; series != nullptr && i < series->steps.size(); ++i) {
    if (std::isfinite(series->values[i])) kept.add(series->steps[i], series->values[i]);
  }
  return kept;
}

double last_step(const ReportRun& run) {
  double last = 0;
  for (const auto& [field, series] : run.metrics) last = std::max(last, series.steps.back());
  for (const auto& [head, series] : run.entropy) last = std::max(last, series.steps.back());
  return last;
}

// What the run was meant to take; where that is not known, what it took.
double planned_steps(const ReportRun& run) {
  const auto found = std::ranges::find(run.settings, "max-iters", &ReportRun::Setting::name);
  const std::optional<double> steps =
      found == run.settings.end() ? std::nullopt : parse_float(found->value);
  return steps.value_or(last_step(run));
}

void judge_loss(const StepSeries& loss, const std::string& name, Verdict& verdict) {
  const double first = loss.values.front();
  const double last = loss.values.back();
  const double fall = first - last;
  const bool learned = fall >= 0.1 * std::abs(first);
  const double percent = first == 0 ? 0 : 100 * fall / std::abs(first);
  const std::string change =
      fmt::format("{} loss {:.3f} to {:.3f} nats ({}{:.0f} %) in {} steps", name, first, last,
                  percent < 0 ? "+" : "\u2212", std::abs(percent), steps_text(loss.steps.back()));
  verdict.learned = learned;
  verdict.learning = fmt::format("{}: {}.", learned ? "It learned" : "It hardly learned", change);
  verdict.tone = learned ? Verdict::Tone::good : Verdict::Tone::warning;
  if (!learned) return;
  const double most = first - 0.9 * (first - *std::ranges::min_element(loss.values));
  for (std::size_t i = 0; i < loss.values.size(); ++i) {
    if (loss.values[i] > most) continue;
    verdict.remarks.push_back(
        fmt::format("Nine tenths of the fall came by step {}.", steps_text(loss.steps[i])));
    break;
  }
}

void judge_rise(const StepSeries& validation, Verdict& verdict) {
  if (validation.steps.size() < 2) return;
  const auto best = std::ranges::min_element(validation.values);
  const double rise = validation.values.back() - *best;
  if (rise < std::max(0.02, 0.02 * std::abs(*best))) return;
  const auto at = static_cast<std::size_t>(best - validation.values.begin());
  verdict.remarks.push_back(
      fmt::format("The validation loss was smallest at step {} ({:.3f}) and rose by {:.3f} since.",
                  steps_text(validation.steps[at]), *best, rise));
  verdict.tone = Verdict::Tone::warning;
}

void judge_answers(const StepSeries& exact, Verdict& verdict) {
  if (exact.empty()) return;
  const auto solved = [](double share) { return share >= 0.99; };
  if (!solved(exact.values.back())) {
    verdict.remarks.push_back(
        fmt::format("{:.1f} % of held-out answers are right.", 100 * exact.values.back()));
    return;
  }
  const auto first = std::ranges::find_if(exact.values, solved);
  const auto at = static_cast<std::size_t>(first - exact.values.begin());
  verdict.learning = fmt::format(
      "It solved the task: {:.1f} % of held-out answers right, above 99 % from step {}.",
      100 * exact.values.back(), steps_text(exact.steps[at]));
  verdict.tone = Verdict::Tone::good;
  verdict.learned = true;
}

void judge_learning(const ReportRun& run, Verdict& verdict) {
  const StepSeries validation = finite(run.metric("val_loss"));
  const StepSeries training = finite(run.metric("train_loss"));
  const ReportRun::Summary& summary = run.summary;
  if (validation.steps.size() >= 2) {
    judge_loss(validation, "validation", verdict);
  } else if (training.steps.size() >= 2) {
    judge_loss(training, "training", verdict);
  } else {
    verdict.learning = "Whether it learned is not known: fewer than two losses are logged.";
  }
  judge_answers(finite(run.metric("val_exact")), verdict);
  judge_rise(validation, verdict);
  if (summary.status == "stalled") {
    verdict.learning =
        "It did not learn: the training loss stayed where guessing by frequency ends.";
    verdict.tone = Verdict::Tone::bad;
    verdict.learned = false;
  } else if (summary.status == "diverged") {
    verdict.learning = fmt::format("It diverged after {} steps{}{}.",
                                   steps_text(summary.steps.value_or(last_step(run))),
                                   summary.message.empty() ? "" : ": ", summary.message);
    verdict.tone = Verdict::Tone::bad;
    verdict.learned = false;
  }
}

std::string list_of(const std::vector<std::string>& heads) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, heads.size()); ++i) {
    text += (i > 0 ? ", " : "") + heads[i];
  }
  if (heads.size() > kShown) text += fmt::format(" and {} more", heads.size() - kShown);
  return text;
}

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return count == 1 ? fmt::format("One head {}", one) : fmt::format("{} heads {}", count, many);
}

void judge_heads(const ReportRun& run, Verdict& verdict) {
  if (run.entropy.empty()) {
    verdict.heads = "Whether a head collapsed is not known: no entropy is logged.";
    return;
  }
  const double early = 0.1 * planned_steps(run);
  std::vector<std::string> collapsed, sharp, uniform;
  for (const auto& [head, series] : run.entropy) {
    const std::string name = fmt::format("layer {} head {}", head.layer, head.head);
    const double soon = first_step_below(series, kCollapsed, early);
    const double since = first_step_below(series, kCollapsed);
    if (std::isfinite(soon)) {
      collapsed.push_back(fmt::format("{} at step {}", name, steps_text(soon)));
    } else if (std::isfinite(since)) {
      sharp.push_back(fmt::format("{} at step {}", name, steps_text(since)));
    }
    if (series.values.back() > kUniform) uniform.push_back(name);
  }
  verdict.collapsed = std::ssize(collapsed);
  if (!collapsed.empty()) {
    verdict.heads = fmt::format(
        "{} early: {}.", counted(collapsed.size(), "collapsed", "collapsed"), list_of(collapsed));
    if (verdict.tone == Verdict::Tone::good) verdict.tone = Verdict::Tone::warning;
  } else {
    verdict.heads = "No head collapsed.";
  }
  if (!sharp.empty()) {
    verdict.remarks.push_back(fmt::format("{} to about one token later: {}.",
                                          counted(sharp.size(), "sharpened", "sharpened"),
                                          list_of(sharp)));
  }
  if (!uniform.empty()) {
    verdict.remarks.push_back(fmt::format("{} evenly over all tokens at the end: {}.",
                                          counted(uniform.size(), "attends", "attend"),
                                          list_of(uniform)));
  }
}

}  // namespace

double first_step_below(const StepSeries& series, double threshold, double until) {
  std::size_t in_a_row = 0;
  for (std::size_t i = 0; i < series.steps.size() && series.steps[i] <= until; ++i) {
    in_a_row = series.values[i] < threshold ? in_a_row + 1 : 0;
    if (in_a_row == kRecords) return series.steps[i + 1 - kRecords];
  }
  return std::numeric_limits<double>::quiet_NaN();
}

Verdict verdict_of(const ReportRun& run) {
  Verdict verdict;
  judge_learning(run, verdict);
  judge_heads(run, verdict);
  if (!run.alarms.empty()) {
    verdict.remarks.push_back(fmt::format(
        "{}; the first at step {}{}.",
        run.alarms.size() == 1 ? "One alarm" : fmt::format("{} alarms", run.alarms.size()),
        steps_text(run.alarms.front().step),
        run.alarms.front().kind.empty() ? "" : ": " + run.alarms.front().kind));
    if (verdict.tone == Verdict::Tone::good) verdict.tone = Verdict::Tone::warning;
  }
  return verdict;
}

}  // namespace attune
