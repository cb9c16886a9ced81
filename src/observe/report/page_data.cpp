#include "observe/report/page_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/text.h"
#include "observe/report/by_layer.h"
#include "observe/report/thinning.h"
#include "observe/strict_json.h"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 600;         // of a series
constexpr std::size_t kMostChartPoints = 12000;  // of a chart, where it has many series
constexpr std::size_t kMostColumns = 200;        // of a heat map
constexpr std::size_t kMostCells = 12000;
constexpr std::size_t kMostRows = 600;

constexpr std::string_view kColors[] = {"#2f5d8a", "#c2571a", "#3b7d4f", "#8c4a8e",
                                        "#8a6d1f", "#3f8a94", "#a63d57", "#5b6470"};
constexpr std::string_view kDashed = "dashed";
constexpr std::string_view kDotted = "dotted";

// Five digits tell more than a pixel.
Json short_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return parse_float(fmt::format("{:.5g}", value)).value_or(value);
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(short_number(value));
  return list;
}

Json steps(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(static_cast<std::int64_t>(value));
  return list;
}

Json missing(std::string why) { return {{"missing", std::move(why)}}; }

// How a curve looks; color: "#rrggbb", or a number from 0 to 1 on the scale of layers.
struct Look {
  Json color;
  double width = 1.6;
  double opacity = 1;
  std::string_view dash = "";
  std::string group = "";  // one entry of the legend for all of a group; empty: the label
};

Json curve(const std::string& label, const StepSeries& series, std::size_t run, const Look& look,
           std::size_t most = kMostPoints) {
  const StepSeries kept = thinned(series, most);
  Json json = {{"label", label},           {"run", run},
               {"color", look.color},      {"width", look.width},
               {"opacity", look.opacity},  {"x", steps(kept.steps)},
               {"y", numbers(kept.values)}};
  if (look.dash == kDashed) json["dash"] = {5, 3};
  if (look.dash == kDotted) json["dash"] = {2, 2};
  if (!look.group.empty()) json["group"] = look.group;
  return json;
}

Json lines(Json series, const char* y, const std::string& otherwise) {
  const bool any = std::ranges::any_of(series, [](const Json& one) {
    return std::ranges::any_of(one["y"], [](const Json& value) { return !value.is_null(); });
  });
  if (!any) return missing(otherwise);
  return {{"kind", "lines"}, {"y", y}, {"series", std::move(series)}};
}

// "metrics.jsonl is not there", or that it holds none of the fields.
std::string why_missing(const ReportRun& run, const std::string& file, const std::string& fields) {
  for (const ReportRun::File& one : run.files) {
    if (one.name != file) continue;
    if (!one.found) {
      return fmt::format("there is no {}{}{}", file, one.option.empty() ? "" : "; written with ",
                         one.option);
    }
    if (!one.problem.empty()) return fmt::format("{} {}", file, one.problem);
  }
  return fmt::format("{} holds no {}", file, fields);
}

// Charts over all runs: one colour a run, or one a curve where there is one run.
class SharedCharts final {
 public:
  explicit SharedCharts(std::span<const ReportRun> runs) : runs_(runs), names_(short_names(runs)) {}

  Json charts() const {
    Json all;
    std::vector<Field> losses = {{"val_loss", "validation", {kColors[0], 2.4}},
                                 {"train_loss", "training, each batch", {"#7f9bb8", 1.1, 0.75}}};
    if (runs_.size() == 1) {
      losses.push_back({"train_eval_loss", "training, evaluated", {kColors[1], 1.8, 1, kDashed}});
    }
    Json loss = of(losses, "nats per token");
    loss["may_log"] = true;
    all["loss"] = std::move(loss);
    const bool has_answers = std::ranges::any_of(
        runs_, [](const ReportRun& run) { return run.metric("val_exact") != nullptr; });
    const std::string_view dash = has_answers ? kDashed : "";
    Json accuracy = of({{"val_exact", "whole answers right", {kColors[2], 2.4}},
                        {"val_accuracy", "validation", {kColors[0], 2.0, 1, dash}},
                        {"train_accuracy", "training, each batch", {"#7f9bb8", 1.1, 0.75}}},
                       "share right");
    accuracy["domain"] = {0, 1};
    accuracy["percent"] = true;
    all["accuracy"] = std::move(accuracy);
    all["lr"] = of({{"lr", "learning rate", {kColors[0], 2.0}}}, "learning rate");
    all["lr"]["zero"] = true;
    Json norm = of({{"grad_norm", "gradient norm", {kColors[0], 1.4}}}, "norm");
    norm["may_log"] = norm["log"] = true;
    all["grad_norm"] = std::move(norm);
    Json entropy = of({{"entropy_mean", "mean", {kColors[0], 2.2}},
                       {"entropy_max", "largest", {kColors[2], 1.3, 1, kDashed}},
                       {"entropy_min", "smallest", {kColors[1], 1.3, 1, kDotted}}},
                      "normalised entropy");
    entropy["domain"] = {0, 1};
    all["entropy"] = std::move(entropy);
    return all;
  }

 private:
  struct Field {
    const char* name;
    const char* label;
    Look look;
  };

  Json of(const std::vector<Field>& fields, const char* y) const {
    Json series = Json::array();
    std::string names;
    for (const Field& field : fields)
      names += (names.empty() ? "" : ", ") + std::string(field.name);
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      for (const Field& field : fields) {
        const StepSeries* found = runs_[run].metric(field.name);
        if (found == nullptr) continue;
        Look look = field.look;
        if (runs_.size() > 1) look.color = run_color(run);
        const std::string label =
            runs_.size() > 1 ? fmt::format("{}: {}", names_[run], field.label) : field.label;
        series.push_back(curve(label, *found, run, look));
      }
    }
    return lines(std::move(series), y, why_missing(runs_.front(), "metrics.jsonl", names));
  }

  std::span<const ReportRun> runs_;
  std::vector<std::string> names_;
};

double shade_of(std::size_t index, std::size_t count) {
  return count < 2 ? 0 : static_cast<double>(index) / static_cast<double>(count - 1);
}

// Curves of heads, those of a layer in one colour.
Json head_lines(const HeadSeries& heads, const char* y, const std::string& otherwise) {
  std::set<std::int64_t> layers;
  for (const auto& [head, series] : heads) layers.insert(head.layer);
  const std::size_t shown = std::min(heads.size(), kMostRows);
  const std::size_t most =
      std::clamp(kMostChartPoints / std::max<std::size_t>(shown, 1), std::size_t{40}, kMostPoints);
  Json series = Json::array();
  for (const auto& [head, values] : heads) {
    if (series.size() == shown) break;
    const auto place =
        static_cast<std::size_t>(std::distance(layers.begin(), layers.find(head.layer)));
    series.push_back(curve(fmt::format("layer {} head {}", head.layer, head.head), values, 0,
                           {.color = shade_of(place, layers.size()),
                            .width = 1.3,
                            .opacity = 0.85,
                            .group = fmt::format("layer {}", head.layer)},
                           most));
  }
  Json chart = lines(std::move(series), y, otherwise);
  chart["domain"] = {0, 1};
  return chart;
}

Json layer_lines(const NamedSeries& layers, const char* y, const std::string& otherwise) {
  const std::size_t most = std::clamp(kMostChartPoints / std::max<std::size_t>(layers.size(), 1),
                                      std::size_t{40}, kMostPoints);
  Json series = Json::array();
  for (std::size_t i = 0; i < std::min(layers.size(), kMostRows); ++i) {
    series.push_back(curve(layers[i].first, layers[i].second, 0,
                           {.color = shade_of(i, layers.size()), .width = 1.5}, most));
  }
  return lines(std::move(series), y, otherwise);
}

Json heat_map(const NamedSeries& rows, Extreme extreme, const std::string& legend,
              const std::string& otherwise) {
  std::vector<const StepSeries*> series;
  Json names = Json::array();
  for (const auto& [name, values] : rows) {
    if (series.size() == kMostRows) break;
    series.push_back(&values);
    names.push_back(name);
  }
  const std::size_t most =
      std::clamp(kMostCells / std::max<std::size_t>(rows.size(), 1), std::size_t{20}, kMostColumns);
  const SpanTable table = span_table(series, most, extreme);
  Json values = Json::array();
  bool any = false;
  for (const std::vector<double>& row : table.values) {
    values.push_back(numbers(row));
    any = any || std::ranges::any_of(row, [](double value) { return std::isfinite(value); });
  }
  if (!any) return missing(otherwise);
  return {{"kind", "heat"},   {"rows", std::move(names)},
          {"legend", legend}, {"begins", steps(table.begins)},
          {"end", table.end}, {"values", std::move(values)}};
}

NamedSeries layers_named(const std::map<std::int64_t, StepSeries>& by_layer) {
  NamedSeries named;
  for (const auto& [layer, series] : by_layer) {
    named.emplace_back(fmt::format("layer {}", layer), series);
  }
  return named;
}

void add_gradients(const ReportRun& run, Json& charts) {
  const std::string no_gradients = why_missing(run, "gradients.jsonl", "gradient_rms");
  const NamedSeries gradients = gradients_by_layer(run);
  const char* unit = run.elements.empty() ? "RMS over parameters" : "norm";
  charts["gradients"] = layer_lines(gradients, unit, no_gradients);
  charts["gradients"]["log"] = charts["gradients"]["may_log"] = true;
  charts["gradient_map"] =
      heat_map(gradients, Extreme::largest, fmt::format("{} (logarithmic)", unit), no_gradients);
  charts["gradient_map"]["log"] = true;
  charts["updates"] = layer_lines(medians_by_layer(run.update_ratio), "update / weight",
                                  why_missing(run, "gradients.jsonl", "update_weight_ratio"));
  charts["updates"]["log"] = charts["updates"]["may_log"] = true;
  charts["residual"] = layer_lines(layers_named(run.residual_rms), "RMS",
                                   why_missing(run, "activations.jsonl", "rms of residual_post"));
  charts["dead"] = layer_lines(layers_named(run.dead_share), "share",
                               why_missing(run, "activations.jsonl", "dead_share of ffn_hidden"));
  charts["dead"]["zero"] = true;
}

Json run_charts(const ReportRun& run) {
  Json charts;
  const std::string no_entropy = why_missing(run, "attention.jsonl", "entropy_norm");
  NamedSeries rows;
  for (const auto& [head, series] : run.entropy) {
    rows.emplace_back(fmt::format("L{} H{}", head.layer, head.head), series);
  }
  const std::string what =
      fmt::format("normalised entropy{}, {}", run.shares ? " of shares" : "",
                  run.entropy_split == "train" ? "training batches" : "validation batches");
  charts["entropy_map"] = heat_map(rows, Extreme::smallest, what, no_entropy);
  charts["entropy_heads"] = head_lines(run.entropy, "normalised entropy", no_entropy);
  add_gradients(run, charts);
  const auto detector = [&](const char* name, const HeadSeries& scores, const char* field) {
    charts[name] = head_lines(scores, "score", why_missing(run, "heads.jsonl", field));
  };
  detector("previous", run.previous_token, "previous_token");
  detector("duplicate", run.duplicate_token, "duplicate_token");
  detector("induction", run.induction, "induction");
  return charts;
}

// Weights in ten-thousandths, -1 where the mask drops a key; entropies in nats; a list for each
// head.
Json run_maps(const ReportRun& run) {
  const AttentionPatterns& patterns = run.patterns;
  if (!run.patterns_missing.empty() || patterns.weights.empty()) {
    return missing(run.patterns_missing.empty() ? "there is no checkpoint" : run.patterns_missing);
  }
  Json weights = Json::array();
  Json entropies = Json::array();
  const auto queries = static_cast<std::size_t>(patterns.query);
  for (std::int64_t layer = 0; layer < patterns.layers; ++layer) {
    for (std::int64_t head = 0; head < patterns.heads; ++head) {
      Json& map = weights.emplace_back(Json::array());
      for (const double weight : patterns.map(layer, head)) {
        map.push_back(weight > 0 ? std::llround(1e4 * weight) : -1);
      }
      const auto first = static_cast<std::size_t>(layer * patterns.heads + head) * queries;
      const auto begin = patterns.entropies.begin() + static_cast<std::ptrdiff_t>(first);
      entropies.push_back(
          numbers(std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(queries))));
    }
  }
  return {{"tokens", run.token_texts},
          {"layers", patterns.layers},
          {"heads", patterns.heads},
          {"weights", std::move(weights)},
          {"entropies", std::move(entropies)}};
}

}  // namespace

std::vector<std::string> short_names(std::span<const ReportRun> runs) {
  std::vector<std::string> names;
  std::set<std::string> distinct;
  for (const ReportRun& run : runs) {
    const std::filesystem::path path = std::filesystem::path(run.name) / "";
    names.push_back(path.parent_path().filename().string());
    distinct.insert(names.back());
  }
  if (distinct.size() < runs.size() || distinct.contains("") || distinct.contains(".")) {
    std::ranges::transform(runs, names.begin(), &ReportRun::name);
  }
  return names;
}

std::string_view run_color(std::size_t index) { return kColors[index % std::size(kColors)]; }

std::string page_data(std::span<const ReportRun> runs) {
  Json data;
  data["charts"] = SharedCharts(runs).charts();
  const std::vector<std::string> names = short_names(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    data["runs"].push_back({{"name", names[i]},
                            {"color", run_color(i)},
                            {"charts", run_charts(runs[i])},
                            {"maps", run_maps(runs[i])}});
  }
  return strict_text(data);
}

}  // namespace attune
