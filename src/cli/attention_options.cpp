#include "cli/attention_options.h"

#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune::cli {
namespace {

constexpr const char* kInput = "Input";
constexpr const char* kMaps = "Maps";
constexpr const char* kTables = "Questions (tables in place of the maps)";
constexpr const char* kOutput = "Output";

}  // namespace

const std::vector<CommandOption>& attention_options() {
  using Takes = CommandOption::Takes;
  static const std::vector<CommandOption> options = {
      {"input", {}, kInput, "text that the model reads", Takes::value, "TEXT"},
      {"example",
       {},
       kInput,
       "held-out example that it reads, without --input",
       Takes::value,
       "N",
       "0"},
      {"data",
       {},
       kInput,
       "the text of held-out examples, where it lies elsewhere than in training",
       Takes::value,
       "FILE"},
      {"layer", {}, kMaps, "this layer alone, from 0", Takes::value, "N"},
      {"head",
       {},
       kMaps,
       "this head alone, from 0: with --layer one map in full, with its tokens",
       Takes::value,
       "N"},
      {"shades",
       {},
       kMaps,
       "ascii, blocks or color; auto: color on a terminal, else blocks",
       Takes::value,
       "KIND",
       "auto"},
      {"heads",
       {},
       kTables,
       "which heads attend to the token before, to equal tokens, or behind those (induction)",
       Takes::nothing},
      {"rank", {}, kTables, "effective rank of each map of the input", Takes::nothing},
      {"experts",
       {},
       kTables,
       "how a mixture of attentions spreads held-out tokens over its experts",
       Takes::nothing},
      {"lens",
       {},
       kTables,
       "loss and accuracy after each block, through the final norm and the head",
       Takes::nothing},
      {"ablate",
       {},
       kTables,
       "loss without each head: its output replaced by zero, or by its mean",
       Takes::value,
       "zero|mean",
       "",
       false,
       "zero"},
      {"together",
       {},
       kTables,
       "heads that --ablate also takes out all at once, as in 1.0,1.3",
       Takes::value,
       "L.H,..."},
      {"patch",
       {},
       kTables,
       "corrupted input of the same length: what share of the loss (of the clean input's targets) "
       "comes back where it gets values of the clean one",
       Takes::value,
       "TEXT"},
      {"patch-by", {}, kTables, "layer, head or position", Takes::value, "AXIS", "layer"},
      {"patch-at",
       {},
       kTables,
       "by position: the point that is patched, as residual_pre, query, "
       "pattern, ffn_out",
       Takes::value,
       "POINT",
       "residual_pre"},
      {"patch-metric",
       {},
       kTables,
       "loss, or logits: of the last token, what the clean input is answered less what the "
       "corrupted "
       "one is",
       Takes::value,
       "KIND",
       "loss"},
      {"eval-iters",
       {},
       kTables,
       "batches of held-out examples of --ablate and --lens",
       Takes::value,
       "N",
       "20"},
      {"batch-size",
       {},
       kTables,
       "examples in a batch (default: that of the run)",
       Takes::value,
       "N"},
      {"out-dir",
       {},
       kOutput,
       "write attention.npy [layer, head, query, key], entropy.npy [layer, head, query] in nats, "
       "tokens.npy [key], attention.png",
       Takes::value,
       "DIR"},
      {"threads",
       {},
       kOutput,
       "0: one for each physical core; the result does not depend on it",
       Takes::value,
       "N",
       "0"},
      {"json", {}, kOutput, "print one JSON object", Takes::nothing},
  };
  return options;
}

std::string choice_option(const Arguments& arguments, const char* name,
                          const std::vector<std::string>& choices) {
  const std::string* text = arguments.find(name);
  if (text == nullptr) return choices.front();
  if (std::ranges::find(choices, *text) != choices.end()) return *text;
  throw ConfigError(fmt::format("--{}: '{}' is none of {}{}", name, *text, fmt::join(choices, ", "),
                                did_you_mean(*text, choices)));
}

// "1.0,1.3"
std::vector<HeadRef> heads_option(const Arguments& arguments, const Transformer& model) {
  std::vector<HeadRef> heads;
  const std::string* text = arguments.find("together");
  if (text == nullptr) return heads;
  for (const std::string_view part : split(*text, ',')) {
    const std::size_t dot = std::min(part.find('.'), part.size());
    const auto layer = parse_integer(part.substr(0, dot));
    const auto head = parse_integer(part.substr(std::min(dot + 1, part.size())));
    const TransformerConfig& config = model.config();
    if (!layer || !head || *layer < 0 || *layer >= config.n_layer || *head < 0 ||
        *head >= config.n_head) {
      throw ConfigError(
          fmt::format("--together: '{}' is no head of this model, 0.0 to {}.{} as LAYER.HEAD", part,
                      config.n_layer - 1, config.n_head - 1));
    }
    heads.push_back({static_cast<int>(*layer), static_cast<int>(*head)});
  }
  return heads;
}

Shades shades_option(const Arguments& arguments) {
  const std::string kind = choice_option(arguments, "shades", {"auto", "ascii", "blocks", "color"});
  if (kind == "ascii") return Shades::ascii;
  if (kind == "blocks") return Shades::blocks;
  if (kind == "color") return Shades::color;
  const char* terminal = std::getenv("TERM");
  const bool has_colors = terminal != nullptr && std::string_view(terminal) != "dumb" &&
                          std::getenv("NO_COLOR") == nullptr;
  return isatty(STDOUT_FILENO) != 0 && has_colors ? Shades::color : Shades::blocks;
}

HookPoint point_option(const Arguments& arguments) {
  std::vector<std::string> names;
  for (int i = static_cast<int>(HookPoint::residual_pre);
       i <= static_cast<int>(HookPoint::residual_post); ++i)
    names.emplace_back(to_string(static_cast<HookPoint>(i)));
  const std::string name = choice_option(arguments, "patch-at", names);
  return static_cast<HookPoint>(static_cast<int>(HookPoint::residual_pre) +
                                (std::ranges::find(names, name) - names.begin()));
}

}  // namespace attune::cli
