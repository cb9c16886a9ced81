#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/observe/attention_maps.h"
#include "attune/observe/heat_text.h"
#include "attune/observe/npy.h"
#include "attune/observe/plot.h"
#include "cli/arguments.h"
#include "cli/attention_options.h"
#include "cli/attention_tables.h"
#include "cli/command.h"
#include "cli/saved_run.h"
#include "observe/strict_json.h"

namespace attune::cli {
namespace {

constexpr std::int64_t kWidth = 80;
constexpr std::int64_t kMostPanels = 5;     // side by side
constexpr std::int64_t kMostTokens = 2048;  // of a map in the terminal or a file
// What the model reads, and what it should say then.
struct Input {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::string> labels;  // texts of the tokens
};

// All next tokens of a given text; of an example, the tokens up to the last that is asked.
Input read_input(const Arguments& arguments, const SavedRun& run, const Task* task) {
  Input input;
  if (const std::string* text = arguments.find("input")) {
    input.tokens = run.vocabulary().encode(*text);
    if (input.tokens.empty()) throw ConfigError("--input: there is no token in it");
    input.targets.assign(input.tokens.begin() + 1, input.tokens.end());
    input.targets.push_back(kIgnore);
  } else {
    const std::int64_t number = arguments.integer("example", 0, std::int64_t{1} << 31).value_or(0);
    Batch batch = run.held_out_example(*task, number);
    input.tokens = std::move(batch.tokens);
    input.targets = std::move(batch.targets);
  }
  const std::int64_t limit = run.model().length_limit();
  const std::int64_t most = limit > 0 ? std::min(limit, kMostTokens) : kMostTokens;
  if (std::ssize(input.tokens) > most)
    throw ConfigError(fmt::format(
        "{}: {} tokens are more than the {} that {}",
        arguments.find("input") ? "--input" : "--example", input.tokens.size(), most,
        limit > 0 && limit <= kMostTokens ? "the model has positions for" : "a map is made of"));
  for (const std::int32_t token : input.tokens)
    input.labels.push_back(run.vocabulary().text(token));
  return input;
}

LogitMetric metric_of(const Arguments& arguments, const Transformer& model, const Input& input,
                      std::span<const std::int32_t> corrupted) {
  const auto first = std::ranges::mismatch(input.tokens, corrupted).in1 - input.tokens.begin();
  if (first == std::ssize(input.tokens))
    throw ConfigError("--patch: is the clean input itself; a token of it has to be another");
  if (choice_option(arguments, "patch-metric", {"loss", "logits"}) == "loss") {
    std::vector<std::int32_t> targets = input.targets;
    // Where nothing differs yet a causal model says the same.
    if (model.can_use_cache()) std::fill_n(targets.begin(), first, kIgnore);
    if (std::ranges::count(targets, kIgnore) == std::ssize(targets))
      throw ConfigError("--patch: nothing is asked from the first token on that differs");
    return loss_metric(std::move(targets));
  }
  const auto time = std::ssize(input.tokens);
  const auto answer = [&](std::span<const std::int32_t> tokens) {
    const std::vector<double> logits = model.logits({tokens, 1, time}, Pass{}).value().to_vector();
    const auto last = logits.end() - model.config().vocabulary;
    return static_cast<std::int32_t>(std::max_element(last, logits.end()) - last);
  };
  const std::int32_t right = answer(input.tokens), wrong = answer(corrupted);
  if (right == wrong)
    throw ConfigError("--patch-metric logits: both inputs get the same answer at the last token");
  return logit_difference_metric(time - 1, right, wrong);
}

Table patch_table(const Arguments& arguments, const SavedRun& run, const Input& input) {
  const std::vector<std::int32_t> corrupted = run.vocabulary().encode(*arguments.find("patch"));
  if (corrupted.size() != input.tokens.size())
    throw ConfigError(fmt::format("--patch: {} tokens, the clean input has {}: '{}'",
                                  corrupted.size(), input.tokens.size(),
                                  run.vocabulary().decode(input.tokens)));
  const Transformer& model = run.model();
  const HookPoint point = point_option(arguments);
  const std::string by = choice_option(arguments, "patch-by", {"layer", "head", "position"});
  const PatchRequest request{input.tokens, corrupted, metric_of(arguments, model, input, corrupted),
                             point};
  if (by == "head") return patch_by_head(model, request);
  return by == "layer" ? patch_by_layer(model, request)
                       : patch_by_position(model, request, input.labels);
}

struct Chosen {
  std::int64_t first_layer, last_layer, first_head, last_head;
};

Chosen chosen_of(const Arguments& arguments, const AttentionPatterns& patterns) {
  const auto layer = arguments.integer("layer", 0, patterns.layers - 1);
  const auto head = arguments.integer("head", 0, patterns.heads - 1);
  return {layer.value_or(0), layer.value_or(patterns.layers - 1), head.value_or(0),
          head.value_or(patterns.heads - 1)};
}

HeatPanel panel_of(const AttentionPatterns& patterns, std::int64_t layer, std::int64_t head,
                   bool is_alone) {
  const HeadStatistics& one =
      patterns.statistics.at(static_cast<int>(layer), static_cast<int>(head));
  std::string title = one.rows_valid
                          ? fmt::format("{}.{} H {:.2f}", layer, head, one.entropy_norm())
                          : fmt::format("{}.{}", layer, head);
  if (is_alone)
    title = fmt::format("layer {}, head {}: entropy {:.3f} nats, {:.3f} of uniform", layer, head,
                        one.entropy_nats(), one.entropy_norm());
  return {std::move(title), patterns.map(layer, head), patterns.query, patterns.key};
}

void print_maps(const AttentionPatterns& patterns, const Chosen& chosen, const Input& input,
                Shades shades) {
  const std::int64_t heads = chosen.last_head - chosen.first_head + 1;
  if (chosen.first_layer == chosen.last_layer && heads == 1) {
    fmt::print("{}{}",
               heat_map(panel_of(patterns, chosen.first_layer, chosen.first_head, true),
                        input.labels, kWidth, shades),
               shade_legend(shades));
    return;
  }
  const std::int64_t lines = (heads + kMostPanels - 1) / kMostPanels;
  const std::int64_t a_line = (heads + lines - 1) / lines;
  for (std::int64_t layer = chosen.first_layer; layer <= chosen.last_layer; ++layer) {
    for (std::int64_t head = chosen.first_head; head <= chosen.last_head; head += a_line) {
      std::vector<HeatPanel> panels;
      for (std::int64_t h = head; h <= std::min(head + a_line - 1, chosen.last_head); ++h)
        panels.push_back(panel_of(patterns, layer, h, false));
      fmt::print("{}", heat_panels(panels, kWidth, shades));
    }
  }
  fmt::print(
      "{}LAYER.HEAD; H: entropy of the head, 0 one key, 1 uniform; lines are queries, "
      "columns keys\nOne map in full: --layer L --head H\n",
      shade_legend(shades));
}

void draw_maps(const AttentionPatterns& patterns, const Chosen& chosen, const Input& input,
               const std::filesystem::path& file) {
  std::vector<HeatMap> panels;
  for (std::int64_t layer = chosen.first_layer; layer <= chosen.last_layer; ++layer) {
    for (std::int64_t head = chosen.first_head; head <= chosen.last_head; ++head) {
      const std::span<const double> map = patterns.map(layer, head);
      panels.push_back({panel_of(patterns, layer, head, false).title,
                        "key",
                        "query",
                        input.labels,
                        input.labels,
                        patterns.query,
                        patterns.key,
                        {map.begin(), map.end()}});
    }
  }
  draw(panels, static_cast<int>(chosen.last_head - chosen.first_head + 1), file);
}

void write_files(const AttentionPatterns& patterns, const Chosen& chosen, const Input& input,
                 const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw IoError(fmt::format("{}: {}", directory.string(), error.message()));
  const auto& p = patterns;
  write_npy(directory / "attention.npy", {p.layers, p.heads, p.query, p.key}, p.weights);
  write_npy(directory / "entropy.npy", {p.layers, p.heads, p.query}, p.entropies);
  write_npy(directory / "tokens.npy", {p.key}, p.tokens);
  draw_maps(patterns, chosen, input, directory / "attention.png");
  print_error(fmt::format("note: wrote attention.npy, entropy.npy, tokens.npy, attention.png to {}",
                          directory.string()));
}

bool asks(const Arguments& arguments) {
  for (const char* name : {"heads", "rank", "experts", "lens", "ablate", "patch"})
    if (arguments.find(name)) return true;
  return false;
}

// Whether a question is about more than the input.
bool asks_heldout(const Arguments& arguments) {
  for (const char* name : {"experts", "lens", "ablate"})
    if (arguments.find(name)) return true;
  return false;
}

std::vector<Table> tables_of(const Arguments& arguments, const SavedRun& run, const Task* task,
                             const Input& input, const AttentionPatterns& patterns) {
  std::vector<Table> tables;
  const Transformer& model = run.model();
  if (arguments.find("heads")) tables.push_back(heads_table(model));
  if (arguments.find("rank")) tables.push_back(rank_table(patterns));
  if (arguments.find("patch")) tables.push_back(patch_table(arguments, run, input));
  if (!asks_heldout(arguments)) return tables;
  const std::int64_t threads = arguments.integer("threads", 0, 1024).value_or(0);
  ThreadPool pool(threads > 0 ? static_cast<int>(threads) : ThreadPool::available_cores());
  const BatchSource source(*task, static_cast<std::uint64_t>(run.config().seed), 0);
  EvaluationOptions options;
  options.batches = arguments.integer("eval-iters", 1, 1 << 20).value_or(20);
  options.batch_size =
      arguments.integer("batch-size", 1, 1 << 20).value_or(run.config().batch_size);
  const Heldout heldout{source, options, pool};
  if (arguments.find("experts")) tables.push_back(experts_table(model, heldout));
  if (arguments.find("lens")) tables.push_back(lens_table(model, heldout));
  if (arguments.find("ablate"))
    tables.push_back(ablation_table(model, heldout,
                                    choice_option(arguments, "ablate", {"zero", "mean"}) == "mean",
                                    heads_option(arguments, model)));
  return tables;
}

void print_json(const SavedRun& run, const Input& input, const AttentionPatterns& patterns,
                const std::vector<Table>& tables) {
  nlohmann::ordered_json json{{"step", run.step()}, {"task", run.config().task.name}};
  json["tokens"] = input.labels;
  if (patterns.missing.empty()) json["entropies"] = to_json(entropy_rows(patterns));
  for (const Table& table : tables) json[table.name] = to_json(table);
  fmt::print("{}\n", strict_text(json));
}

}  // namespace

int run_attention(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, attention_options());
  if (arguments.find("help")) {
    fmt::print("{}", render_help(command.usage,
                                 "Shows what every head of a trained model attends to, and what it "
                                 "does for the result.",
                                 attention_options()));
    return kDone;
  }
  if (arguments.positionals.size() != 1)
    throw ConfigError(
        "attention: one run directory is expected, as in 'attune attention runs/copy-1'");
  if (arguments.find("together") && !arguments.find("ablate"))
    throw ConfigError("--together: says which heads --ablate takes out; give that, too");
  const Shades shades = shades_option(arguments);
  const SavedRun run(arguments.positionals.front());
  const bool needs_task = !arguments.find("input") || asks_heldout(arguments);
  const std::unique_ptr<Task> task =
      needs_task ? run.task(arguments.find("data") ? *arguments.find("data") : "") : nullptr;
  const Input input = read_input(arguments, run, task.get());
  const AttentionPatterns patterns = attention_patterns(run.model(), input.tokens);
  const bool needs_maps = !asks(arguments) || arguments.find("out-dir") || arguments.find("rank") ||
                          arguments.find("heads");
  if (!patterns.missing.empty() && needs_maps) throw ConfigError(patterns.missing);

  const std::vector<Table> tables = tables_of(arguments, run, task.get(), input, patterns);
  const std::optional<Chosen> chosen =
      patterns.missing.empty() ? std::optional(chosen_of(arguments, patterns)) : std::nullopt;
  if (const std::string* directory = arguments.find("out-dir"))
    write_files(patterns, *chosen, input, *directory);
  if (arguments.find("json")) {
    print_json(run, input, patterns, tables);
    return kDone;
  }
  fmt::print("{} after {} steps, {} tokens: {}\n", run.config().task.name, run.step(),
             input.tokens.size(), printable(run.vocabulary().decode(input.tokens)));
  for (const Table& table : tables) fmt::print("{}", to_text(table));
  if (tables.empty()) print_maps(patterns, *chosen, input, shades);
  return kDone;
}

}  // namespace attune::cli
