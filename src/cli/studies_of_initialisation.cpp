#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/model/transformer.h"
#include "attune/observe/batch_gradient.h"
#include "attune/observe/gaussian_entropy.h"
#include "attune/observe/study_distance.h"
#include "attune/observe/study_init.h"
#include "attune/observe/study_rank.h"
#include "attune/observe/study_scale.h"
#include "cli/study.h"

// Studies of models that have not been trained.
namespace attune::cli {
namespace {

// One batch of training examples and a new model, both of the seed.
struct NewModel {
  explicit NewModel(const StudyContext& context)
      : model(context.config.model, static_cast<std::uint64_t>(context.config.seed),
              context.config.dtype),
        batch(BatchSource(context.task, static_cast<std::uint64_t>(context.config.seed),
                          context.config.train_size)
                  .train(0, 0, context.config.batch_size, context.config.batch_size)) {}
  Transformer model;
  Batch batch;
};

std::vector<StudyTable> measure_init(const StudyContext& context) {
  const NewModel fresh(context);
  const ModelAtInit found = study_init(fresh.model, fresh.batch);
  StudyTable model{
      "model",
      "",
      {"loss_nats", "uniform_nats", "embedding_rms", "embedding_gradient_rms"},
      {{"",
        {found.loss_nats, found.uniform_nats, found.embedding_rms, found.embedding_gradient_rms}}}};
  StudyTable layers{"layers",
                    "layer",
                    {"stream_rms", "attention_rms", "ffn_rms", "gradient_rms", "score_std",
                     "entropy_norm", "predicted_norm", "small_scores_norm"},
                    {}};
  layers.shown = {"stream_rms",   "gradient_rms",   "score_std",
                  "entropy_norm", "predicted_norm", "small_scores_norm"};
  for (const LayerAtInit& layer : found.layers) {
    layers.rows.push_back(
        {std::to_string(layers.rows.size()),
         {layer.stream_rms, layer.attention_rms, layer.ffn_rms, layer.gradient_rms, layer.score_std,
          layer.entropy_norm, layer.predicted_norm, layer.small_scores_norm}});
  }
  return {std::move(model), std::move(layers)};
}

Study init_study() {
  return {
      .name = "init",
      .summary = "activations, gradients, attention entropy and loss of a new model, by layer",
      .description =
          "What a model computes before its first update. stream, attention, ffn rms: root mean "
          "square of the residual stream behind each block and of what the block's two parts add. "
          "gradient rms: of the summed loss by that stream. score std: deviation of the scores "
          "within a query's row. entropy norm: 1 is even attention, 0 is one key; predicted: the "
          "same for normal scores, by an exact integral for each row's own deviation and number of "
          "keys; small scores: its limit 1 - s^2 / (2 ln T). loss nats beside uniform "
          "nats, ln V. Without --data the tokens of an example are all different and random.",
      .task = "text",
      .seeds = 5,
      .defaults = {{"n-layer", "6"},
                   {"n-embd", "64"},
                   {"batch-size", "8"},
                   {"tie-head", "false"},
                   {"init", "xavier,gpt2"},
                   {"norm-pos", "pre,post"},
                   {"pos", "learned"}},
      .measure = measure_init,
      .panels = {{"layers", "residual stream", "RMS", {"stream_rms"}, false, true},
                 {"layers", "gradient of the summed loss", "RMS", {"gradient_rms"}, false, true},
                 {"layers",
                  "attention entropy",
                  "entropy / ln keys",
                  {"entropy_norm", "predicted_norm"}}}};
}

// "block.3.attention.query.weight" -> "attention_query_weight" and 3; -1 for another name.
std::int64_t layer_of(const std::string& parameter, std::string& role) {
  constexpr std::string_view kPrefix = "block.";
  if (!parameter.starts_with(kPrefix)) return -1;
  const std::size_t dot = parameter.find('.', kPrefix.size());
  const auto layer =
      parse_integer(std::string_view(parameter).substr(kPrefix.size(), dot - kPrefix.size()));
  role = parameter.substr(dot + 1);
  for (char& c : role) c = c == '.' ? '_' : c;
  return layer.value_or(-1);
}

std::vector<StudyTable> measure_gradients(const StudyContext& context) {
  const NewModel fresh(context);
  const BatchGradient gradient = batch_gradient(fresh.model, fresh.batch);
  StudyTable layers{"layers", "layer", {}, {}};
  StudyTable others{"others", "parameter", {"gradient_norm"}, {}};
  others.is_long = true;
  layers.shown = {"attention_query_weight", "attention_value_weight", "attention_output_weight",
                  "ffn_up_weight", "ffn_down_weight"};
  double total = 0;
  for (const Parameter& parameter : fresh.model.parameters()) {
    const double square =
        sum_of_squares(gradient.of_sum[static_cast<std::size_t>(parameter.index())]) /
        std::pow(static_cast<double>(gradient.scored), 2);
    total += square;
    std::string role;
    const std::int64_t layer = layer_of(parameter.name(), role);
    if (layer < 0) {
      others.rows.push_back({parameter.name(), {std::sqrt(square)}});
      continue;
    }
    if (layer == 0) layers.columns.push_back(role);
    if (static_cast<std::size_t>(layer) == layers.rows.size())
      layers.rows.push_back({std::to_string(layer), {}});
    layers.rows.back().values.push_back(std::sqrt(square));
  }
  const std::string output =
      fresh.model.config().ffn ? "ffn_down_weight" : "attention_output_weight";
  const auto place = static_cast<std::size_t>(
      std::find(layers.columns.begin(), layers.columns.end(), output) - layers.columns.begin());
  StudyTable norms{"norms", "", {"last_" + output, "first_" + output, "whole_gradient"}, {}};
  const auto at = [&](const StudyTable::Row& row) {
    return place < row.values.size() ? row.values[place] : std::nan("");
  };
  norms.rows.push_back({"", {at(layers.rows.back()), at(layers.rows.front()), std::sqrt(total)}});
  return {std::move(norms), std::move(layers), std::move(others)};
}

std::string expected_exponent(const RunConfig& config) {
  const std::string& init = config.model.init;
  if (!config.model.ffn || !config.model.residual || init == "constant") return "";
  if (init == "gpt2") return "0 (residual scaling)";
  return config.model.norm_position == NormPosition::post ? "0 (Xiong 2020)" : "-0.5 (Xiong 2020)";
}

Study gradients_study() {
  return {
      .name = "gradients",
      .summary = "gradient norm of each parameter by depth: the laws of pre- and post-norm",
      .description =
          "Norms of the gradient of the mean loss before the first update, by parameter and layer, "
          "and their powers of depth. At initialisation the last feed-forward output weight of a "
          "post-norm model has a gradient that does not depend on depth L, that of a pre-norm "
          "model falls as L^-1/2 (Xiong et al. 2020), and gpt2's scaling of residual projections "
          "takes that away. A single model's power varies by 0.1 to 0.2, hence the seeds. Without "
          "--data the tokens of an example are all different and random, and so are the targets; "
          "the law is best seen on a text. Over distance in time: attune study distance.",
      .task = "text",
      .seeds = 16,
      .defaults = {{"n-layer", "8,16,32"},
                   {"n-embd", "64"},
                   {"batch-size", "4"},
                   {"tie-head", "false"},
                   {"init", "xavier,gpt2"},
                   {"norm-pos", "pre,post"},
                   {"pos", "sinusoidal"}},
      .measure = measure_gradients,
      .panels = {{"norms",
                  "last feed-forward output weight",
                  "gradient norm",
                  {"last_ffn_down_weight"},
                  true,
                  true,
                  true},
                 {"layers",
                  "feed-forward output weights, deepest model",
                  "gradient norm",
                  {"ffn_down_weight"},
                  false,
                  true},
                 {"layers",
                  "query weights, deepest model",
                  "gradient norm",
                  {"attention_query_weight"},
                  false,
                  true}},
      .depth = "n-layer",
      .law = expected_exponent};
}

std::vector<StudyTable> measure_distance(const StudyContext& context) {
  const NewModel fresh(context);
  const GradientReach found =
      gradient_reach(fresh.model, {fresh.batch.tokens, fresh.batch.examples, fresh.batch.time},
                     static_cast<std::uint64_t>(context.config.seed));
  StudyTable table{"distances", "distance", {"attention", "rnn", "lstm"}, {}};
  for (std::size_t d = 0; d < found.attention.size(); ++d)
    table.rows.push_back({std::to_string(d), {found.attention[d], found.rnn[d], found.lstm[d]}});
  return {std::move(table)};
}

Study distance_study() {
  return {
      .name = "distance",
      .summary = "gradients over distance in time: attention against a plain RNN and an LSTM",
      .description =
          "|dy_T / dx_t| of the last token's output by the token at distance T - t before it, "
          "relative to its own, in a new model and in a plain recurrent network and an LSTM of one "
          "layer and the same width that read the same embeddings. Attention reaches any distance "
          "in one step; what passes a recurrent state shrinks with every token.",
      .task = "text",
      .seeds = 5,
      .defaults = {{"n-layer", "1"},
                   {"n-embd", "64"},
                   {"batch-size", "16"},
                   {"tie-head", "false"},
                   {"init", "xavier"},
                   {"pos", "sinusoidal"},
                   {"dtype", "float64"}},
      .measure = measure_distance,
      .panels = {{"distances",
                  "gradient over distance",
                  "|dy_T / dx_t|, relative",
                  {"attention", "rnn", "lstm"},
                  false,
                  true}}};
}

std::vector<StudyTable> measure_rank(const StudyContext& context) {
  const NewModel fresh(context);
  StudyTable residual{"residuals", "layer", {"residual"}, {}};
  StudyTable cosine{"cosines", "layer", {"cosine"}, {}};
  for (const LayerRank& layer : study_rank(fresh.model, fresh.batch)) {
    const std::string place = std::to_string(residual.rows.size());
    residual.rows.push_back({place, {layer.residual}});
    cosine.rows.push_back({place, {layer.cosine}});
  }
  cosine.is_long = true;
  return {std::move(residual), std::move(cosine)};
}

Study rank_study() {
  return {
      .name = "rank",
      .summary = "collapse of rank with depth, with and without skips and feed-forward parts",
      .description =
          "How far the tokens of an example still differ in each layer of a new model: residual is "
          "|X - 1 mean^T| / |X| of the stream behind a block (0: the embedding), cosine that of "
          "two "
          "different tokens on average. Attention alone, without skips and feed-forward parts, "
          "makes all tokens alike at a doubly exponential rate (Dong et al. 2021); a causal mask "
          "slows it down, for the first token sees itself alone.",
      .task = "text",
      .seeds = 5,
      .defaults = {{"n-layer", "12"},
                   {"n-embd", "64"},
                   {"block-size", "32"},
                   {"batch-size", "4"},
                   {"tie-head", "false"},
                   {"init", "xavier"},
                   {"residual", "none,on"},
                   {"ffn", "none,on"},
                   {"mask", "none,causal"},
                   {"pos", "learned"},
                   {"dtype", "float64"}},
      .measure = measure_rank,
      .panels = {
          {"residuals", "how far tokens differ", "|X - 1 mean| / |X|", {"residual"}, false, true},
          {"cosines", "how alike tokens are", "mean cosine", {"cosine"}}}};
}

std::vector<StudyTable> measure_scale(const StudyContext& context);

Study scale_study() {
  return {
      .name = "scale",
      .summary = "softmax Jacobian and entropy by the scale of scores, with and without 1/sqrt(d)",
      .description =
          "What a softmax over --block-size keys lets through. By score std: independent normal "
          "scores; entropy norm (1: even, 0: one key) beside its exact value, the largest weight, "
          "and the Frobenius norm of the Jacobian that gradients pass, which rises to a maximum "
          "before it falls. By head dim: scores q k^T of N(0, 1) queries and keys, scaled by "
          "1/sqrt(d) and not.",
      .task = "text",
      .only = {"block-size", "seed"},
      .seeds = 5,
      .defaults = {{"block-size", "64"}},
      .options =
          {{.name = "score-std",
            .aliases = {},
            .group = "",
            .help = "deviations of normal scores",
            .value_name = "S,S,...",
            .default_value = "0.01,0.5,1,2,4,8,16"},
           {.name = "head-dim",
            .aliases = {},
            .group = "",
            .help = "widths of queries and keys",
            .value_name = "N,N,...",
            .default_value = "4,16,64,256"},
           {.name = "rows",
            .aliases = {},
            .group = "",
            .help = "rows of scores that each number is a mean over; by head dim a tenth of them",
            .value_name = "N",
            .default_value = "1000"}},
      .measure = measure_scale,
      .panels = {{"normal", "softmax Jacobian", "Frobenius norm", {"jacobian"}, true, false},
                 {"normal",
                  "entropy",
                  "entropy / ln keys",
                  {"entropy_norm", "predicted_norm"},
                  true,
                  false},
                 {"products",
                  "Jacobian by head width",
                  "Frobenius norm",
                  {"scaled_jacobian", "unscaled_jacobian"},
                  true,
                  false}}};
}

std::vector<StudyTable> measure_scale(const StudyContext& context) {
  static const Study study = scale_study();
  const auto seed = static_cast<std::uint64_t>(context.config.seed);
  const std::int64_t keys = context.config.model.block_size;
  const std::int64_t rows = study_count(context.arguments, study, "rows", 1, 1000000);
  StudyTable normal{
      "normal", "score_std", {"entropy_norm", "predicted_norm", "max_probability", "jacobian"}, {}};
  std::uint32_t number = 0;
  for (const double s : study_numbers(context.arguments, study, "score-std", 0, 50)) {
    const RandomStream stream = Randomness{seed, number++}.stream("study.scale.normal");
    const SoftmaxAtScale found = softmax_at_scale(normal_scores(rows, keys, s, stream));
    const double predicted = GaussianEntropy(s).nats(keys) / std::log(static_cast<double>(keys));
    normal.rows.push_back(
        {format_float(s), {found.entropy_norm, predicted, found.max_probability, found.jacobian}});
  }
  StudyTable products{"products",
                      "head_dim",
                      {"scaled_score_std", "scaled_entropy_norm", "scaled_jacobian",
                       "unscaled_score_std", "unscaled_entropy_norm", "unscaled_jacobian"},
                      {}};
  for (const double width : study_numbers(context.arguments, study, "head-dim", 1, 65536)) {
    const RandomStream stream = Randomness{seed, number++}.stream("study.scale.products");
    const auto head_dim = static_cast<std::int64_t>(width);
    const std::int64_t fewer = (rows + 9) / 10;  // each draws keys * head_dim numbers
    StudyTable::Row row{format_float(width), {}};
    for (const double scale : {1 / std::sqrt(static_cast<double>(head_dim)), 1.0}) {
      const SoftmaxAtScale found =
          softmax_at_scale(product_scores(fewer, keys, head_dim, scale, stream));
      row.values.insert(row.values.end(), {found.score_std, found.entropy_norm, found.jacobian});
    }
    products.rows.push_back(std::move(row));
  }
  return {std::move(normal), std::move(products)};
}

}  // namespace

std::vector<Study> studies_of_initialisation() {
  return {init_study(), gradients_study(), distance_study(), rank_study(), scale_study()};
}

}  // namespace attune::cli
