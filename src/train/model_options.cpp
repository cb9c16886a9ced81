#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "train/option_builders.h"

// The options of data and model.
namespace attune::option {
namespace {

constexpr const char* kData = "Data";
constexpr const char* kModel = "Model";

// "1..12", or one number for a fixed length.
void set_length(RunConfig& config, std::string_view text) {
  const std::size_t dots = text.find("..");
  const bool is_range = dots != std::string_view::npos;
  const auto low = parse_integer(text.substr(0, dots));
  const auto high = is_range ? parse_integer(text.substr(dots + 2)) : low;
  if (!low || !high) {
    throw ConfigError(fmt::format("--length: '{}' is not a range such as 1..12", text));
  }
  config.task.min_length = *low;
  config.task.max_length = *high;
}

Option length() {
  Option option = described(
      {"length",
       {},
       kData,
       "Symbols in a sequence, drawn evenly from FROM..TO; one number fixes it. Longer is harder, "
       "and attention costs its square.",
       "FROM..TO"},
      Option::Kind::text);
  option.set = set_length;
  option.get = [](const RunConfig& config) {
    return fmt::format("{}..{}", config.task.min_length, config.task.max_length);
  };
  return option;
}

// One context length serves the model and the windows of a text.
Option block_size() {
  Option option = described({"block-size",
                             {"context"},
                             kModel,
                             "Largest context in tokens; 0: as long as the task's examples. Costs "
                             "memory and time in proportion, attention its square."},
                            Option::Kind::integer);
  option.set = [](RunConfig& config, std::string_view text) {
    config.model.block_size = config.task.block_size = integer_of("block-size", text);
  };
  option.get = [](const RunConfig& config) { return std::to_string(config.model.block_size); };
  return option;
}

void add_data_options(std::vector<Option>& options) {
  options.push_back(changeable_on_resume(text(
      {"data",
       {"dataset"},
       kData,
       "Text file to train on (task text), UTF-8; its last tenth is held out for validation.",
       "FILE"},
      [](auto& config) -> auto& { return config.task.data; })));
  options.push_back(length());
  options.push_back(integer(
      {"symbols",
       {},
       kData,
       "Symbols in the alphabet of copy, reverse, sort, recall and "
       "induction. More take longer to learn."},
      [](auto& config) -> auto& { return config.task.symbols; }));
  options.push_back(integer(
      {"digits", {}, kData, "Digits of each summand (addition). More take longer to learn."},
      [](auto& config) -> auto& { return config.task.digits; }));
  options.push_back(boolean(
      {"reversed",
       {},
       kData,
       "Answer with the last digit first (addition), so that carries are "
       "known when they are needed: much easier."},
      [](auto& config) -> auto& { return config.task.reversed; }));
  options.push_back(integer(
      {"modulus",
       {},
       kData,
       "Numbers are 0 .. modulus-1 (modular); a prime for div. The table to "
       "learn has modulus squared entries."},
      [](auto& config) -> auto& { return config.task.modulus; }));
  options.push_back(choice(
      {"op", {}, kData, "Operation of the task modular."}, {"add", "sub", "mul", "div"},
      [](auto& config) -> auto& { return config.task.op; }));
  options.push_back(number(
      {"val-fraction",
       {},
       kData,
       "Share of all pairs held out for validation (modular); a pair and its mirror image "
       "go together. More held out: later generalisation, or none."},
      [](auto& config) -> auto& { return config.task.val_fraction; }));
  options.push_back(integer(
      {"train-size",
       {},
       kData,
       "Distinct training examples, visited in a new order each epoch; 0: "
       "endless fresh ones. Small sets are memorised."},
      [](auto& config) -> auto& { return config.train_size; }));
}

void add_size_options(std::vector<Option>& options) {
  options.push_back(integer(
      {"n-layer",
       {"layers"},
       kModel,
       "Transformer blocks. Time and memory grow in proportion; deep models "
       "need warm-up."},
      [](auto& config) -> auto& { return config.model.n_layer; }));
  options.push_back(integer(
      {"n-head",
       {"heads"},
       kModel,
       "Attention heads of a block; must divide --n-embd. More heads attend "
       "to more places, each in fewer dimensions."},
      [](auto& config) -> auto& { return config.model.n_head; }));
  options.push_back(integer(
      {"n-embd",
       {"d-model"},
       kModel,
       "Width of the residual stream. Parameters and time grow with its "
       "square."},
      [](auto& config) -> auto& { return config.model.n_embd; }));
  options.push_back(integer(
      {"n-kv-head",
       {},
       kModel,
       "Heads of keys and values, shared by groups of query heads; must divide --n-head; 0: as "
       "many. 1 is multi-query attention."},
      [](auto& config) -> auto& { return config.model.n_kv_head; }));
  options.push_back(block_size());
  options.push_back(integer(
      {"d-ff", {}, kModel, "Hidden width of the feed-forward layer; 0: four times --n-embd."},
      [](auto& config) -> auto& { return config.model.d_ff; }));
}

void add_structure_options(std::vector<Option>& options) {
  options.push_back(enumeration<Activation>(
      {"activation",
       {},
       kModel,
       "Nonlinearity of the feed-forward layer; swiglu adds a third map."},
      {"gelu", "gelu_tanh", "relu", "swiglu"},
      [](auto& config) -> auto& { return config.model.activation; }));
  options.push_back(ablation(
      {"ffn", {}, kModel, "none: blocks of attention alone."},
      [](auto& config) -> auto& { return config.model.ffn; }));
  options.push_back(ablation(
      {"residual", {}, kModel, "none: no skip connections, to study the collapse of rank."},
      [](auto& config) -> auto& { return config.model.residual; }));
  options.push_back(enumeration<NormKind>(
      {"norm", {}, kModel, "Normalisation of the residual stream; without one, lower --lr."},
      {"layernorm", "rmsnorm", "none"}, [](auto& config) -> auto& { return config.model.norm; }));
  options.push_back(enumeration<NormPosition>(
      {"norm-pos",
       {},
       kModel,
       "Normalise before each sublayer (pre) or after its residual sum (post, as in the 2017 "
       "paper; needs warm-up)."},
      {"pre", "post"}, [](auto& config) -> auto& { return config.model.norm_position; }));
  options.push_back(boolean(
      {"bias", {}, kModel, "Biases in linear maps and layer norms."},
      [](auto& config) -> auto& { return config.model.bias; }));
  options.push_back(boolean(
      {"tie-head",
       {},
       kModel,
       "The output head is the table of token embeddings: fewer parameters."},
      [](auto& config) -> auto& { return config.model.tie_head; }));
  options.push_back(text(
      {"init", {}, kModel, "Initialisation of weights, see attune list inits."},
      [](auto& config) -> auto& { return config.model.init; }));
  options.push_back(number(
      {"init-std",
       {},
       kModel,
       "Standard deviation of gpt2's weights and of all embeddings. Larger "
       "starts with sharper attention and larger losses."},
      [](auto& config) -> auto& { return config.model.init_std; }));
  options.push_back(number(
      {"dropout",
       {},
       kModel,
       "Share of embeddings, attention outputs and feed-forward outputs set to 0 in "
       "training, 0 to 1. More slows learning and delays overfitting."},
      [](auto& config) -> auto& { return config.model.dropout; }));
}

}  // namespace

std::vector<Option> model_options() {
  std::vector<Option> options;
  add_data_options(options);
  add_size_options(options);
  add_structure_options(options);
  return options;
}

}  // namespace attune::option
