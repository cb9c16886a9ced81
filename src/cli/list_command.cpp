#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/nn/init.h"
#include "attune/nn/masks.h"
#include "attune/nn/positional_encoding.h"
#include "attune/nn/self_attention.h"
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
    fmt::print("{:<17} {}\n", info.name, info.description);
}

void list_inits() {
  for (const InitScheme::Info& info : InitScheme::list())
    fmt::print("{:<12} {}\n", info.name, info.description);
}

void list_all_attention() {
  for (const AttentionInfo& info : list_attention())
    fmt::print("{:<15} {}\n", info.name, info.description);
}

// A row a query, a column a key.
constexpr std::int64_t kPictureSize = 16;

void draw(const Mask& mask) {
  for (std::int64_t i = 0; i < kPictureSize; ++i) {
    std::string row(15, ' ');
    for (std::int64_t j = 0; j < kPictureSize; ++j)
      row += mask.keeps(0, 0, i, j, kPictureSize, kPictureSize) ? " #" : " .";
    fmt::print("{}\n", row);
  }
}

// Sizes at which a picture of 16 tokens shows what a mask is.
constexpr MaskSizes kPictureSizes{
    .window = 3, .dilation = 2, .global_tokens = 2, .random_blocks = 1, .block = 3, .prefix = 5};

void list_all_masks() {
  for (const MaskInfo& info : list_masks()) {
    fmt::print("{:<15} {}\n", info.name, info.description);
    if (info.name == "documents") {
      draw(Mask::documents(1, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
    } else {
      draw(make_mask(info.name, kPictureSizes));
    }
  }
  fmt::print("{:<15} {}\n", "causal+bigbird",
             "several names: a key is kept where all of them keep it");
  draw(make_mask("causal+bigbird", kPictureSizes));
  fmt::print(
      "\nrows are queries, columns keys; drawn with a window of {}, dilation {}, {} global tokens, "
      "{} random block of {}, a prefix of {}\n",
      kPictureSizes.window, kPictureSizes.dilation, kPictureSizes.global_tokens,
      kPictureSizes.random_blocks, kPictureSizes.block, kPictureSizes.prefix);
}

struct Catalogue {
  const char* name;
  const char* what;
  void (*print)();
};
constexpr Catalogue kCatalogues[] = {
    {"tasks", "what a model can be trained on, each with an example", list_all_tasks},
    {"encodings", "positional encodings, for --pos", list_all_encodings},
    {"attention", "kinds of attention, for --attention", list_all_attention},
    {"masks", "which tokens may attend to which, for --mask", list_all_masks},
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
