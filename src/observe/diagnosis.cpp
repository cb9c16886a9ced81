#include "attune/observe/diagnosis.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "attune/observe/entropy_watch.h"
#include "attune/observe/text_table.h"
#include "attune/train/evaluation.h"
#include "attune/train/trainer.h"
#include "attune/train/training_step.h"
#include "train/unigram.h"

namespace attune {
namespace {

constexpr double kDiesBelow = 0.01;  // of the last layer's gradient

// "layer 3", "layers 0, 2 to 11"
std::string layers_text(const std::vector<int>& layers) {
  std::vector<std::string> ranges;
  for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    while (end < layers.size() && layers[end] - layers[begin] == static_cast<int>(end - begin))
      ++end;
    ranges.push_back(end - begin == 1 ? fmt::format("{}", layers[begin])
                                      : fmt::format("{} to {}", layers[begin], layers[end - 1]));
  }
  return fmt::format("{} {}", layers.size() == 1 ? "layer" : "layers", fmt::join(ranges, ", "));
}

std::string ratio_text(const std::vector<double>& gradients) {
  return fmt::format("{:.1e} in the first layer against {:.1e} in the last", gradients.front(),
                     gradients.back());
}

std::string gradient_finding(const Diagnosis& diagnosis, int layer) {
  const auto place = static_cast<std::size_t>(layer);
  std::string text = fmt::format(
      "the gradient dies at layer {}: on its way down it falls below a hundredth of the last "
      "layer's there ({:.1e}); its norm is {}. ",
      layer, diagnosis.gradients[place], ratio_text(diagnosis.gradients));
  const auto fresh = Diagnosis::dies_at(diagnosis.fresh_gradients);
  if (fresh) {
    return text + fmt::format(
                      "In a fresh model it dies too ({}): initialisation, depth or the place of "
                      "the norm",
                      ratio_text(diagnosis.fresh_gradients));
  }
  return text + fmt::format(
                    "In a fresh model it arrives ({}): it was training that cut the layers off, "
                    "its first steps were too large",
                    ratio_text(diagnosis.fresh_gradients));
}

std::vector<std::pair<double, double>> entropies_of(const AttentionStatistics& statistics) {
  std::vector<std::pair<double, double>> entropies;
  for (int layer = 0; layer < statistics.layers(); ++layer) {
    std::pair<double, double> range{1, 0};
    for (int head = 0; head < statistics.heads(); ++head) {
      const HeadStatistics& one = statistics.at(layer, head);
      if (one.rows_valid == 0 || one.shares) return {};
      range.first = std::min(range.first, one.entropy_norm());
      range.second = std::max(range.second, one.entropy_norm());
    }
    entropies.push_back(range);
  }
  return entropies;
}

}  // namespace

std::vector<double> layer_gradients(const RunConfig& config, const Transformer& model,
                                    const Task& task, ThreadPool& pool) {
  const BatchSource source(task, static_cast<std::uint64_t>(config.seed), config.train_size);
  const Batch batch = source.train(0, 0, config.batch_size, config.batch_size);
  const StepResult result =
      TrainingStep(model, pool, config.shards).run({&batch, 1}, step_options(config, 0));
  std::vector<double> squares(static_cast<std::size_t>(model.config().n_layer));
  for (std::size_t layer = 0; layer < squares.size(); ++layer) {
    const std::string path = fmt::format("block.{}.", layer);
    for (const Parameter& parameter : model.parameters()) {
      const auto i = static_cast<std::size_t>(parameter.index());
      if (i < result.gradient_squares.size() && parameter.name().starts_with(path))
        squares[layer] += result.gradient_squares[i];
    }
  }
  for (double& value : squares) value = std::sqrt(value);
  return squares;
}

bool Diagnosis::is_stalled() const {
  return std::abs(loss_nats - unigram_entropy) <= kStalledWithin;
}

std::optional<int> Diagnosis::dies_at(const std::vector<double>& gradients) {
  if (gradients.empty()) return std::nullopt;
  for (std::size_t layer = gradients.size(); layer-- > 0;) {
    if (gradients[layer] < kDiesBelow * gradients.back()) return static_cast<int>(layer);
  }
  return std::nullopt;
}

std::vector<int> Diagnosis::uniform_layers() const {
  std::vector<int> layers;
  for (std::size_t layer = 0; layer < entropies.size(); ++layer) {
    if (entropies[layer].first > kUniformAbove) layers.push_back(static_cast<int>(layer));
  }
  return layers;
}

Diagnosis diagnose(const RunConfig& config, const Transformer& fresh, const Transformer& model,
                   const Task& task, ThreadPool& pool) {
  Diagnosis diagnosis;
  const auto timed = [&](const Transformer& of) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<double> gradients = layer_gradients(config, of, task, pool);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const double seconds = took.count() * static_cast<double>(config.grad_accum);
    diagnosis.step_seconds = std::min(diagnosis.step_seconds, seconds);
    return gradients;
  };
  static_cast<void>(timed(fresh));  // the memory of a step is taken once
  diagnosis.fresh_gradients = timed(fresh);
  diagnosis.gradients = timed(model);
  const BatchSource source(task, static_cast<std::uint64_t>(config.seed), config.train_size);
  const EvaluationOptions options{config.eval_iters, config.batch_size, true};
  const Evaluation evaluation = evaluate(model, source, Split::train, options, pool);
  diagnosis.loss_nats = evaluation.loss_nats();
  diagnosis.unigram_entropy = unigram_entropy(source, config.eval_iters, config.batch_size);
  diagnosis.entropies = entropies_of(evaluation.attention);
  return diagnosis;
}

std::vector<std::string> findings(const Diagnosis& diagnosis) {
  std::vector<std::string> lines;
  if (!std::isfinite(diagnosis.loss_nats)) {
    lines.emplace_back("the loss is not a finite number: weights or activations have overflowed");
  } else if (diagnosis.is_stalled()) {
    lines.push_back(fmt::format(
        "the loss stands at {:.3f} nats, and single tokens have an entropy of {:.3f}: the model "
        "knows how often each token occurs and nothing of their order",
        diagnosis.loss_nats, diagnosis.unigram_entropy));
  }
  if (const auto layer = Diagnosis::dies_at(diagnosis.gradients)) {
    lines.push_back(gradient_finding(diagnosis, *layer));
  } else if (diagnosis.gradients.size() > 1 &&
             diagnosis.gradients.back() < kDiesBelow * diagnosis.gradients.front()) {
    lines.push_back(fmt::format("the gradient grows a hundredfold on its way down: its norm is {}",
                                ratio_text(diagnosis.gradients)));
  }
  const std::vector<int> uniform = diagnosis.uniform_layers();
  if (!uniform.empty()) {
    lines.push_back(fmt::format(
        "in {} every head looks at all keys alike (entropy above {} of the largest): attention "
        "there is a mean over the text",
        layers_text(uniform), kUniformAbove));
  }
  std::vector<int> collapsed;
  for (std::size_t layer = 0; layer < diagnosis.entropies.size(); ++layer) {
    if (diagnosis.entropies[layer].second < kCollapsedBelow)
      collapsed.push_back(static_cast<int>(layer));
  }
  if (!collapsed.empty()) {
    lines.push_back(fmt::format("in {} every head looks at one key (entropy below {})",
                                layers_text(collapsed), kCollapsedBelow));
  }
  return lines;
}

std::string layer_table(const Diagnosis& diagnosis) {
  TextTable table({"layer", "gradient, fresh", "gradient, now", "entropy of heads"});
  for (std::size_t layer = 0; layer < diagnosis.gradients.size(); ++layer) {
    const bool has_entropy = layer < diagnosis.entropies.size();
    table.add({fmt::format("{}", layer), fmt::format("{:.1e}", diagnosis.fresh_gradients[layer]),
               fmt::format("{:.1e}", diagnosis.gradients[layer]),
               has_entropy ? fmt::format("{:.3f} to {:.3f}", diagnosis.entropies[layer].first,
                                         diagnosis.entropies[layer].second)
                           : "-"});
  }
  return table.text();
}

}  // namespace attune
