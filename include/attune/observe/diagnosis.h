#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attune/core/thread_pool.h"
#include "attune/model/transformer.h"
#include "attune/task/task.h"
#include "attune/train/run_config.h"

// What is wrong with a run that does not learn, and what would have helped.
namespace attune {

// The norm of the loss's gradient with respect to all weights of each block, first block first,
// over the training batch of step 0 split into `config.shards`.
[[nodiscard]] std::vector<double> layer_gradients(const RunConfig& config, const Transformer& model,
                                                  const Task& task, ThreadPool& pool);

// A model as it is at the end of a run beside one that was just made.
struct Diagnosis {
  double loss_nats = 0;        // over evaluation batches of the training split
  double unigram_entropy = 0;  // of the targets in them: what is left without reading the input
  std::vector<double> fresh_gradients;  // of each block
  std::vector<double> gradients;
  // Smallest and largest normalised entropy of each layer's heads; empty without any.
  std::vector<std::pair<double, double>> entropies;
  double step_seconds = std::numeric_limits<double>::infinity();  // what a training step takes

  // Within 0.02 nats of the unigram entropy, as the status `stalled` is measured.
  [[nodiscard]] bool is_stalled() const;
  // The last layer before which next to nothing arrives: from the top down, the first one whose
  // gradient is below a hundredth of the last layer's. Nothing where all are above it.
  [[nodiscard]] static std::optional<int> dies_at(const std::vector<double>& gradients);
  // Layers whose heads all have an entropy above 0.98.
  [[nodiscard]] std::vector<int> uniform_layers() const;
};
[[nodiscard]] Diagnosis diagnose(const RunConfig& config, const Transformer& fresh,
                                 const Transformer& model, const Task& task, ThreadPool& pool);

// One line a finding, in plain words, the gravest first; empty: nothing was found.
[[nodiscard]] std::vector<std::string> findings(const Diagnosis& diagnosis);
// Gradients and entropies layer by layer.
[[nodiscard]] std::string layer_table(const Diagnosis& diagnosis);

// Another way to begin the same run.
struct Trial {
  std::string name;     // "pre-norm"
  std::string options;  // as they would be given: "--norm-pos pre"
  RunConfig config;     // of `steps` updates, its schedule that of the run
};
// The run as it was, then warm-up, pre-norm and a tenth of the rate; without those that the run has
// already.
[[nodiscard]] std::vector<Trial> trials(const RunConfig& config, std::int64_t steps);

struct TrialResult {
  // Training loss, the mean of up to ten updates around a quarter, a half and three quarters.
  std::vector<double> losses;
  double loss_nats = 0;  // at the end, over evaluation batches of the training split
  // Of the gradients of the first and the last layer at the end.
  double gradient_ratio = 0;
  bool diverged = false;
};
// Trains from a fresh model, without files.
[[nodiscard]] TrialResult try_out(const Trial& trial, const Task& task);

// The losses side by side.
[[nodiscard]] std::string trial_table(const std::vector<Trial>& trials,
                                      const std::vector<TrialResult>& results);
// What the table says, in one line: which trial got clear of the unigram entropy, or that none did.
[[nodiscard]] std::string verdict(const Diagnosis& diagnosis, const std::vector<Trial>& trials,
                                  const std::vector<TrialResult>& results);

}  // namespace attune
