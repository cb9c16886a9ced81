#include "cli/attention_tables.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/observe/effective_rank.h"
#include "attune/observe/expert_load.h"
#include "attune/observe/head_detectors.h"
#include "attune/observe/logit_lens.h"
#include "attune/observe/text_table.h"
#include "observe/strict_json.h"

namespace attune::cli {
namespace {

using Row = std::vector<Table::Cell>;

std::string text_of(const Table::Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return printable(*text);
  if (const auto* number = std::get_if<double>(&cell)) {
    const std::string digits = fmt::format("{:.4f}", *number);
    return digits == "-0.0000" ? "0.0000" : digits;
  }
  return std::to_string(std::get<std::int64_t>(cell));
}

std::string label_of(const HeadRef& head) { return fmt::format("{}.{}", head.layer, head.head); }

constexpr double kClear = 0.5;  // from here on a head is called by what it does

std::string role_of(const HeadScores& scores) {
  std::string role;
  const auto add = [&](double score, const char* name) {
    if (score >= kClear) role += (role.empty() ? "" : ", ") + std::string(name);
  };
  add(scores.previous_token, "previous token");
  add(scores.duplicate_token, "duplicate token");
  add(scores.induction, "induction");
  return role;
}

// One row a group of sites, one column a member: the share that each gives back.
void add_recovered(Table& table, const Transformer& model, const PatchRequest& request,
                   const std::vector<std::vector<PatchSite>>& groups) {
  std::vector<PatchSite> sites;
  for (const auto& group : groups) sites.insert(sites.end(), group.begin(), group.end());
  const auto time = std::ssize(request.clean);
  const PatchSweep sweep = patch_sweep(model, {request.clean, 1, time},
                                       {request.corrupted, 1, time}, request.metric, sites);
  std::size_t site = 0;
  for (std::size_t row = 0; row < groups.size(); ++row)
    for (std::size_t i = 0; i < groups[row].size(); ++i)
      table.rows[row].emplace_back(sweep.recovered(site++));
  table.title += fmt::format(": clean {:.4f}, corrupted {:.4f}", sweep.clean, sweep.corrupted);
}

}  // namespace

std::string to_text(const Table& table) {
  TextTable text(table.columns);
  for (const Row& row : table.rows) {
    std::vector<std::string> cells;
    for (const Table::Cell& cell : row) cells.push_back(text_of(cell));
    text.add(std::move(cells));
  }
  return table.title + "\n" + text.text();
}

nlohmann::ordered_json to_json(const Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const Row& row : table.rows) {
    nlohmann::ordered_json object;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string name = table.columns[i];
      std::ranges::replace(name, ' ', '_');
      std::visit([&](const auto& value) { object[name] = value; }, row[i]);
    }
    name_nonfinite(object);
    rows.push_back(std::move(object));
  }
  return rows;
}

Table entropy_rows(const AttentionPatterns& patterns) {
  const bool shares = patterns.statistics.at(0, 0).shares;
  Table table{"entropies",
              shares ? "entropy of each weight's share of its row (norm: 0 one key, 1 uniform)"
                     : "entropy of the maps (norm: 0 one key, 1 uniform)",
              {"head", "entropy nats", "entropy norm", "max prob"},
              {}};
  for (int layer = 0; layer < patterns.statistics.layers(); ++layer) {
    for (int head = 0; head < patterns.statistics.heads(); ++head) {
      const HeadStatistics& one = patterns.statistics.at(layer, head);
      table.rows.push_back(
          {label_of({layer, head}), one.entropy_nats(), one.entropy_norm(), one.max_probability()});
    }
  }
  return table;
}

Table rank_table(const AttentionPatterns& patterns) {
  Table table{
      "ranks",
      fmt::format("effective rank of the maps, of {} (Roy and Vetterli 2007)", patterns.query),
      {"head", "effective rank"},
      {}};
  for (int layer = 0; layer < patterns.layers; ++layer)
    for (int head = 0; head < patterns.heads; ++head)
      table.rows.push_back({label_of({layer, head}), effective_rank(patterns.map(layer, head),
                                                                    patterns.query, patterns.key)});
  return table;
}

Table heads_table(const Transformer& model) {
  const ProbeTokens probe = probe_tokens(model);
  Table table{"heads",
              fmt::format("mean weight on what each kind of head attends to, {} random texts of {} "
                          "tokens that repeat",
                          probe.batch, probe.time),
              {"head", "previous token", "duplicate token", "induction", "role"},
              {}};
  const HeadTable scores = detect_heads(model, probe.batch_of());
  for (int layer = 0; layer < scores.layers; ++layer) {
    for (int head = 0; head < scores.heads; ++head) {
      const HeadScores& one = scores.at(layer, head);
      table.rows.push_back({label_of({layer, head}), one.previous_token, one.duplicate_token,
                            one.induction, role_of(one)});
    }
  }
  return table;
}

Table experts_table(const Transformer& model, const Heldout& heldout) {
  const std::int64_t size = heldout.options.batch_size;
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < heldout.options.batches; ++i)
    batches.push_back(heldout.source.evaluation(Split::validation, i * size, size));
  const std::vector<ExpertLoad> loads = expert_loads(model, batches);
  if (loads.empty())
    throw ConfigError(
        fmt::format("--experts: --attention {} has none, mixture has", model.config().attention));
  Table table{"experts", "", {"expert", "share of tokens", "mean probability"}, {}};
  std::vector<std::string> variations;
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    variations.push_back(fmt::format("{:.2f}", loads[layer].variation()));
    for (std::size_t e = 0; e < loads[layer].shares.size(); ++e)
      table.rows.push_back(
          {fmt::format("{}.{}", layer, e), loads[layer].shares[e], loads[layer].probabilities[e]});
  }
  table.title = fmt::format(
      "tokens of {} held-out examples by expert; standard deviation over mean, by layer: {}",
      size * heldout.options.batches, fmt::join(variations, ", "));
  return table;
}

Table ablation_table(const Transformer& model, const Heldout& heldout, bool by_mean,
                     std::span<const HeadRef> together) {
  Table table{
      "ablation",
      fmt::format("held-out loss with heads replaced by {}", by_mean ? "their mean" : "zero"),
      {"without", "loss", "change", "accuracy"},
      {}};
  std::vector<Array> means;
  if (by_mean) {
    const Batch batch = heldout.source.evaluation(Split::train, 0, heldout.options.batch_size);
    means = mean_head_outputs(model, {batch.tokens, batch.examples, batch.time});
  }
  const auto measure = [&](std::span<const HeadRef> heads) {
    HeadAblation ablation =
        by_mean ? HeadAblation(model, heads, means) : HeadAblation(model, heads);
    EvaluationOptions options = heldout.options;
    options.statistics = false;
    options.hooks = &ablation;
    return evaluate(model, heldout.source, Split::validation, options, heldout.pool);
  };
  const double whole = measure({}).loss_nats();
  const auto add = [&](const std::string& label, std::span<const HeadRef> heads) {
    const Evaluation result = measure(heads);
    table.rows.push_back(
        {label, result.loss_nats(), result.loss_nats() - whole, result.accuracy()});
  };
  add("nothing", {});
  const std::vector<HeadRef> heads = all_heads(model);
  for (const HeadRef& head : heads) add(label_of(head), std::span(&head, 1));
  add("all", heads);
  if (together.empty()) return table;
  std::string label;
  for (const HeadRef& head : together) label += (label.empty() ? "" : ",") + label_of(head);
  add(label, together);
  return table;
}

Table lens_table(const Transformer& model, const Heldout& heldout) {
  Table table{"lens",
              "logit lens: what the head makes of the stream behind each block, held-out examples",
              {"after", "loss", "accuracy"},
              {}};
  std::vector<LensRow> sum;
  for (std::int64_t i = 0; i < heldout.options.batches; ++i) {
    const Batch batch = heldout.source.evaluation(Split::validation, i, heldout.options.batch_size);
    const std::vector<LensRow> rows =
        logit_lens(model, {batch.tokens, batch.examples, batch.time}, batch.targets);
    if (sum.empty()) sum.resize(rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      sum[row].layer = rows[row].layer;
      sum[row].loss_sum += rows[row].loss_sum;
      sum[row].scored += rows[row].scored;
      sum[row].correct += rows[row].correct;
    }
  }
  for (const LensRow& row : sum)
    table.rows.push_back({row.layer < 0 ? "embedding" : fmt::format("block {}", row.layer),
                          row.loss_nats(), row.accuracy()});
  return table;
}

Table patch_by_layer(const Transformer& model, const PatchRequest& request) {
  std::vector<HookPoint> points = {HookPoint::residual_pre, HookPoint::attention_out};
  if (model.config().ffn) points.push_back(HookPoint::ffn_out);
  Table table{"patches", "share recovered by patching a point of a layer", {"layer"}, {}};
  for (const HookPoint point : points) table.columns.emplace_back(to_string(point));
  std::vector<std::vector<PatchSite>> groups;
  for (int layer = 0; layer < model.config().n_layer; ++layer) {
    table.rows.push_back({std::int64_t{layer}});
    groups.emplace_back();
    for (const HookPoint point : points) groups.back().push_back({point, layer});
  }
  add_recovered(table, model, request, groups);
  return table;
}

Table patch_by_head(const Transformer& model, const PatchRequest& request) {
  Table table{"patches", "share recovered by patching what a head hands on", {"layer"}, {}};
  for (int head = 0; head < model.config().n_head; ++head)
    table.columns.push_back(fmt::format("head {}", head));
  std::vector<std::vector<PatchSite>> groups;
  for (int layer = 0; layer < model.config().n_layer; ++layer) {
    table.rows.push_back({std::int64_t{layer}});
    groups.emplace_back();
    for (int head = 0; head < model.config().n_head; ++head)
      groups.back().push_back({HookPoint::head_output, layer, -1, head});
  }
  add_recovered(table, model, request, groups);
  return table;
}

Table patch_by_position(const Transformer& model, const PatchRequest& request,
                        std::span<const std::string> labels) {
  Table table{
      "patches",
      fmt::format("share recovered by patching {} at one position", to_string(request.point)),
      {"position", "token"},
      {}};
  for (int layer = 0; layer < model.config().n_layer; ++layer)
    table.columns.push_back(fmt::format("layer {}", layer));
  std::vector<std::vector<PatchSite>> groups;
  for (std::int64_t i = 0; i < std::ssize(request.clean); ++i) {
    table.rows.push_back({i, labels[static_cast<std::size_t>(i)]});
    groups.emplace_back();
    for (int layer = 0; layer < model.config().n_layer; ++layer)
      groups.back().push_back({request.point, layer, i});
  }
  add_recovered(table, model, request, groups);
  return table;
}

}  // namespace attune::cli
