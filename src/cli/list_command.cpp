#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/nn/init.h"
#include "attune/nn/positional_encoding.h"
#include "attune/task/task.h"
#include "attune/train/run_config.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "train/question.h"

namespace attune::cli {
namespace {

void list_task(const TaskInfo& info) {
  fmt::print("{:<12} {}\n", info.name, info.description);
  if (info.name == "text") return;  // its examples are the user's file
  const RunConfig config = RunConfig::defaults_for(info.name).resolved();
  const std::unique_ptr<Task> task = make_task(config.task);
  const Batch batch =
      BatchSource(*task, static_cast<std::uint64_t>(config.seed), 0).evaluation(Split::train, 0, 1);
  const Question question = question_of(batch, 0);
  fmt::print("{:<12}   {} -> {}\n", "", task->decode(question.prompt),
             task->decode(question.answer));
  fmt::print("{:<12}   {} tokens, {} an example, chance {:.3f}\n", "", task->vocabulary(),
             task->time(), task->chance());
}

void list_all_tasks() {
  for (const TaskInfo& info : list_tasks()) list_task(info);
}

void list_all_encodings() {
  for (const EncodingInfo& info : list_encodings())
    fmt::print("{:<12} {}\n", info.name, info.description);
}

void list_inits() {
  for (const InitScheme::Info& info : InitScheme::list())
    fmt::print("{:<12} {}\n", info.name, info.description);
}

void list_attention() {
  fmt::print("{:<12} {}\n", "dot-product",
             "scaled dot-product attention with softmax in several heads (Vaswani 2017)");
}

void list_masks() {
  fmt::print("{:<12} {}\n", "causal", "a token sees itself and what came before it");
  fmt::print("{:<12} {}\n", "none", "every token sees every token");
}

struct Catalogue {
  const char* name;
  const char* what;
  void (*print)();
};
constexpr Catalogue kCatalogues[] = {
    {"tasks", "what a model can be trained on, each with an example", list_all_tasks},
    {"encodings", "positional encodings, for --pos", list_all_encodings},
    {"attention", "kinds of attention", list_attention},
    {"masks", "which tokens may attend to which, for --mask", list_masks},
    {"inits", "initialisations, for --init", list_inits},
};

}  // namespace

int run_list(const Command& command, Words words) {
  const Arguments arguments = parse_arguments(words, {});
  if (arguments.find("help") || arguments.positionals.empty()) {
    fmt::print("usage: {}\n\n", command.usage);
    for (const Catalogue& catalogue : kCatalogues)
      fmt::print("  {:<12} {}\n", catalogue.name, catalogue.what);
    return arguments.find("help") ? kDone : kUsage;
  }
  if (arguments.positionals.size() > 1) {
    throw ConfigError(
        fmt::format("list: one list was expected, not also '{}'", arguments.positionals[1]));
  }
  std::vector<std::string> names;
  const std::string& asked = arguments.positionals.front();
  for (const Catalogue& catalogue : kCatalogues) {
    if (asked == catalogue.name) {
      catalogue.print();
      return kDone;
    }
    names.emplace_back(catalogue.name);
  }
  throw ConfigError(
      fmt::format("list: '{}' is unknown{}; there are tasks, encodings, attention, masks and inits",
                  asked, did_you_mean(asked, names)));
}

}  // namespace attune::cli
