#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/train/evaluation.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/entropy_table.h"
#include "cli/saved_run.h"
#include "observe/head_json.h"
#include "observe/strict_json.h"

namespace attune::cli {
namespace {

const std::vector<CommandOption>& eval_options() {
  static const std::vector<CommandOption> options = {
      {"eval-iters",
       {},
       "Evaluation",
       "batches; more of them, less noise",
       CommandOption::Takes::value,
       "N",
       "200"},
      {"batch-size",
       {},
       "Evaluation",
       "examples in a batch (default: that of the run)",
       CommandOption::Takes::value,
       "N"},
      {"eval-lengths",
       {},
       "Evaluation",
       "lengths to evaluate apart from each other, also beyond those trained on, as in 16,32,64",
       CommandOption::Takes::value,
       "L,L,..."},
      {"data",
       {},
       "Evaluation",
       "the text, where it lies elsewhere than in training",
       CommandOption::Takes::value,
       "FILE"},
      {"seed",
       {},
       "Evaluation",
       "which held-out examples are drawn (default: that of the run)",
       CommandOption::Takes::value,
       "N"},
      {"threads",
       {},
       "Output",
       "0: one for each physical core; the result does not depend on it",
       CommandOption::Takes::value,
       "N",
       "0"},
      {"json", {}, "Output", "print one JSON object", CommandOption::Takes::nothing},
  };
  return options;
}

std::vector<std::int64_t> lengths_option(const Arguments& arguments) {
  std::vector<std::int64_t> lengths;
  const std::string* text = arguments.find("eval-lengths");
  if (text == nullptr) return lengths;
  for (const std::string_view part : split(*text, ',')) {
    const std::optional<std::int64_t> length = parse_integer(part);
    if (!length || *length < 1) {
      throw ConfigError(fmt::format("--eval-lengths: '{}' is not a whole number from 1", part));
    }
    lengths.push_back(*length);
  }
  return lengths;
}

struct LengthResult {
  std::int64_t length;
  std::optional<Evaluation> evaluation;  // none: the encoding has no positions that far
};

nlohmann::ordered_json to_json(const Evaluation& evaluation, bool has_answers) {
  nlohmann::ordered_json json;
  json["val_loss"] = evaluation.loss_nats();
  json["val_accuracy"] = evaluation.accuracy();
  if (has_answers) json["val_exact"] = evaluation.exact_share();
  json["examples"] = evaluation.examples;
  json["tokens"] = evaluation.scored;
  name_nonfinite(json);
  return json;
}

void print_json(const SavedRun& run, const Task& task, const Evaluation& all,
                const std::vector<LengthResult>& lengths) {
  nlohmann::ordered_json json;
  json["step"] = run.step();
  json["task"] = task.name();
  json.update(to_json(all, task.has_answers()));
  json["chance"] = task.chance();
  for (const LengthResult& result : lengths) {
    nlohmann::ordered_json row;
    row["length"] = result.length;
    if (result.evaluation) row.update(to_json(*result.evaluation, task.has_answers()));
    json["lengths"].push_back(row);
  }
  for (int layer = 0; layer < all.attention.layers(); ++layer) {
    for (int head = 0; head < all.attention.heads(); ++head) {
      nlohmann::ordered_json row{{"layer", layer}, {"head", head}};
      add_head(row, all.attention.at(layer, head));
      name_nonfinite(row);
      json["attention"].push_back(row);
    }
  }
  fmt::print("{}\n", strict_text(json));
}

void print_table(const SavedRun& run, const Task& task, const Evaluation& all,
                 const std::vector<LengthResult>& lengths) {
  fmt::print("{} after {} steps, {} held-out examples, {} scored tokens\n", task.name(), run.step(),
             all.examples, all.scored);
  fmt::print("loss      {:.4f} nats a token\n", all.loss_nats());
  fmt::print("accuracy  {:.4f} of tokens (chance {:.4f})\n", all.accuracy(), task.chance());
  if (task.has_answers()) {
    fmt::print("exact     {:.4f} of answers, {} of {}\n", all.exact_share(), all.exact,
               all.examples);
  }
  for (const LengthResult& result : lengths) {
    if (!result.evaluation) {
      fmt::print("length {:<5} beyond the positions the model has\n", result.length);
      continue;
    }
    fmt::print("length {:<5} loss {:.4f}, accuracy {:.4f}", result.length,
               result.evaluation->loss_nats(), result.evaluation->accuracy());
    if (task.has_answers()) fmt::print(", exact {:.4f}", result.evaluation->exact_share());
    fmt::print("\n");
  }
  if (all.attention.heads() > 0) fmt::print("{}", entropy_table(all.attention));
}

// The task with every example of one length: symbols of a sequence, or tokens of a text window.
std::unique_ptr<Task> task_of_length(const SavedRun& run, const std::string& data,
                                     std::int64_t length) {
  TaskOptions options = run.config().task;
  if (!data.empty()) options.data = data;
  options.min_length = options.max_length = length;
  options.block_size = length;
  return make_task(options);
}

}  // namespace

int run_eval(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, eval_options());
  if (arguments.find("help")) {
    fmt::print("{}", render_help(command.usage,
                                 "Evaluates a trained model on examples it was not trained on.",
                                 eval_options()));
    return kDone;
  }
  if (arguments.positionals.size() != 1)
    throw ConfigError("eval: one run directory is expected, as in 'attune eval runs/copy-1'");
  const std::vector<std::int64_t> lengths = lengths_option(arguments);
  EvaluationOptions options;
  options.batches = arguments.integer("eval-iters", 1, 1 << 20).value_or(200);
  const std::int64_t threads = arguments.integer("threads", 0, 1024).value_or(0);
  const std::int64_t batch_size = arguments.integer("batch-size", 1, 1 << 20).value_or(0);
  const std::int64_t seed =
      arguments.integer("seed", 0, std::numeric_limits<std::int64_t>::max()).value_or(-1);

  const SavedRun run(arguments.positionals.front());
  const std::string data = arguments.find("data") ? *arguments.find("data") : "";
  options.batch_size = batch_size > 0 ? batch_size : run.config().batch_size;
  ThreadPool pool(threads > 0 ? static_cast<int>(threads) : ThreadPool::available_cores());
  const auto evaluate_task = [&](const Task& task) {
    const BatchSource source(task, static_cast<std::uint64_t>(seed >= 0 ? seed : run.config().seed),
                             0);
    return evaluate(run.model(), source, Split::validation, options, pool);
  };
  const std::unique_ptr<Task> task = run.task(data);
  const Evaluation all = evaluate_task(*task);
  std::vector<LengthResult> by_length;
  const std::int64_t limit = run.model().length_limit();
  for (const std::int64_t length : lengths) {
    const std::unique_ptr<Task> longer = task_of_length(run, data, length);
    by_length.push_back({length, std::nullopt});
    if (limit == 0 || longer->time() <= limit) by_length.back().evaluation = evaluate_task(*longer);
  }
  if (arguments.find("json")) {
    print_json(run, *task, all, by_length);
  } else {
    print_table(run, *task, all, by_length);
  }
  return kDone;
}

}  // namespace attune::cli
