#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "train/option_builders.h"

// The options of attention: encoding, kind, weights, mask.
namespace attune::option {
namespace {

constexpr const char* kAttention = "Attention";
constexpr const char* kMask = "Mask";

// The field is 0 for 1/sqrt(head_dim), so "0" itself is not a value.
void set_attention_scale(RunConfig& config, std::string_view text) {
  double& scale = config.model.attention_scale;
  if (text == "sqrt") {
    scale = 0;
  } else if (text == "none") {
    scale = 1;
  } else if (const auto value = parse_float(text); value && *value > 0) {
    scale = number_of("attn-scale", text);
  } else {
    throw ConfigError(
        fmt::format("--attn-scale: '{}' is not sqrt, none or a number above 0", text));
  }
}

Option attention_scale() {
  Option option = described(
      {"attn-scale",
       {},
       kAttention,
       "Factor on the scores: sqrt is 1/sqrt(head width), none is 1. Larger makes attention "
       "sharper at the start: lower entropy, smaller gradients.",
       "sqrt|none|X"},
      Option::Kind::text);
  option.set = set_attention_scale;
  option.get = [](const RunConfig& config) -> std::string {
    const double scale = config.model.attention_scale;
    return scale == 0 ? "sqrt" : scale == 1 ? "none" : format_float(scale);
  };
  return option;
}

void set_temperature(RunConfig& config, std::string_view text) {
  const auto value = text == "learned" ? kLearned : parse_float(text);
  if (!value || !(*value > 0 || text == "learned")) {
    throw ConfigError(
        fmt::format("--attn-temperature: '{}' is not learned or a number above 0", text));
  }
  config.model.temperature = *value;
}

Option temperature() {
  Option option = described(
      {"attn-temperature",
       {},
       kAttention,
       "What scores are divided by before they become weights: above 1 attends more evenly, below "
       "more sharply. learned: a number of each head that starts at 1.",
       "X|learned"},
      Option::Kind::text);
  option.set = set_temperature;
  option.get = [](const RunConfig& config) -> std::string {
    const double value = config.model.temperature;
    return value == kLearned ? "learned" : format_float(value);
  };
  return option;
}

void add_attention_options(std::vector<Option>& options) {
  options.push_back(text(
      {"pos",
       {"pos-enc"},
       kAttention,
       "Positional encoding: none, learned, sinusoidal, rope, alibi, t5, ...; "
       "see attune list encodings."},
      [](auto& config) -> auto& { return config.model.positions; }));
  options.push_back(text(
      {"attention", {}, kAttention, "Kind of attention, see attune list attention."},
      [](auto& config) -> auto& { return config.model.attention; }));
  options.push_back(number(
      {"pos-scale",
       {},
       kAttention,
       "How many times the plain context rope-pi, rope-ntk and rope-dynamic-ntk are stretched to, "
       "from 1; other encodings do without."},
      [](auto& config) -> auto& { return config.model.position_scale; }));
  options.push_back(integer(
      {"random-positions",
       {},
       kAttention,
       "L above 0: tokens stand at positions drawn from 0 .. L-1, sorted, anew for every step "
       "(Ruoss 2023); evaluation has one fixed draw for each length, a text that is sampled "
       "one for its final length. L is then the longest text. 0: at 0, 1, 2, ..."},
      [](auto& config) -> auto& { return config.model.random_positions; }));
  options.push_back(attention_scale());
  options.push_back(with_auto(number(
      {"attn-dropout",
       {},
       kAttention,
       "Share of attention weights set to 0 in training, 0 to 1; auto: equal to --dropout."},
      [](auto& config) -> auto& { return config.model.attention_dropout; })));
  options.push_back(integer(
      {"head-dim", {}, kAttention, "Width of a head's queries and keys; 0: --n-embd / --n-head."},
      [](auto& config) -> auto& { return config.model.head_dim; }));
  options.push_back(integer(
      {"value-dim", {}, kAttention, "Width of a head's values; 0: equal to --head-dim."},
      [](auto& config) -> auto& { return config.model.value_dim; }));
}

void add_mask_options(std::vector<Option>& options) {
  options.push_back(text(
      {"mask",
       {},
       kMask,
       "Which keys a query may attend to, see attune list masks; names joined by + keep what all "
       "of them keep: causal+window.",
       "NAME+NAME"},
      [](auto& config) -> auto& { return config.model.mask; }));
  options.push_back(integer(
      {"window", {}, kMask, "Tokens in sight on each side, the query's own included."},
      [](auto& config) -> auto& { return config.model.mask_sizes.window; }));
  options.push_back(integer(
      {"dilation", {}, kMask, "Distance between the keys of a dilated window."},
      [](auto& config) -> auto& { return config.model.mask_sizes.dilation; }));
  options.push_back(integer(
      {"global-tokens", {}, kMask, "First tokens that see all and are seen by all."},
      [](auto& config) -> auto& { return config.model.mask_sizes.global_tokens; }));
  options.push_back(integer(
      {"random-blocks", {}, kMask, "Blocks of keys drawn for each block of queries (bigbird)."},
      [](auto& config) -> auto& { return config.model.mask_sizes.random_blocks; }));
  options.push_back(integer(
      {"mask-block", {}, kMask, "Tokens in such a block."},
      [](auto& config) -> auto& { return config.model.mask_sizes.block; }));
  options.push_back(integer(
      {"prefix", {}, kMask, "First tokens that see each other (prefix)."},
      [](auto& config) -> auto& { return config.model.mask_sizes.prefix; }));
  options.push_back(text(
      {"document-separator",
       {},
       kMask,
       "Token that ends a document (documents); \\n: a line break.",
       "TOKEN"},
      [](auto& config) -> auto& { return config.document_separator; }));
}

void add_weight_options(std::vector<Option>& options) {
  options.push_back(enumeration<Normaliser>(
      {"normaliser",
       {},
       kAttention,
       "How scores become weights. softmax lets keys compete; sigmoid and relu, divided by the "
       "number of keys, do not."},
      {"softmax", "sigmoid", "relu"},
      [](auto& config) -> auto& { return config.model.normaliser; }));
  options.push_back(enumeration<Sink>(
      {"attn-sink",
       {},
       kAttention,
       "A key with value 0 that a softmax may turn to, with the score 0 or a learned one a head."},
      {"none", "zero", "learned"}, [](auto& config) -> auto& { return config.model.sink; }));
  options.push_back(number(
      {"softcap",
       {},
       kAttention,
       "c: scores s become c tanh(s / c), so that none grows beyond c; 0: off."},
      [](auto& config) -> auto& { return config.model.softcap; }));
  options.push_back(temperature());
  options.push_back(boolean(
      {"qk-norm",
       {},
       kAttention,
       "RMS norm of every head's queries and keys, with a learned gain: scores cannot grow, "
       "larger rates stay stable."},
      [](auto& config) -> auto& { return config.model.qk_norm; }));
  options.push_back(enumeration<TalkingHeads>(
      {"talking-heads",
       {},
       kAttention,
       "Heads mix their scores before the normaliser, their weights after it, or both."},
      {"none", "before", "after", "both"},
      [](auto& config) -> auto& { return config.model.talking_heads; }));
}

void add_kind_options(std::vector<Option>& options) {
  options.push_back(integer(
      {"attn-top-k", {}, kAttention, "Keys that a query keeps (top-k)."},
      [](auto& config) -> auto& { return config.model.top_k; }));
  options.push_back(integer(
      {"attn-experts", {}, kAttention, "Experts of a mixture of attentions."},
      [](auto& config) -> auto& { return config.model.experts; }));
  options.push_back(integer(
      {"attn-features", {}, kAttention, "Features of a head (random-feature)."},
      [](auto& config) -> auto& { return config.model.features; }));
}

}  // namespace

std::vector<Option> attention_options() {
  std::vector<Option> options;
  add_attention_options(options);
  add_weight_options(options);
  add_kind_options(options);
  add_mask_options(options);
  return options;
}

}  // namespace attune::option
