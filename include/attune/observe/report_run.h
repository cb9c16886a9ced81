#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attune/observe/attention_maps.h"

namespace attune {

// A number over the steps of a run, ascending. NaN: the log says that it was not finite.
struct StepSeries {
  std::vector<double> steps;
  std::vector<double> values;
  void add(double step, double value) {
    steps.push_back(step);
    values.push_back(value);
  }
  [[nodiscard]] bool empty() const { return steps.empty(); }
};

struct HeadIndex {
  std::int64_t layer = 0;
  std::int64_t head = 0;
  auto operator<=>(const HeadIndex&) const = default;
};
using HeadSeries = std::map<HeadIndex, StepSeries>;

// A run directory as far as it can be read. Every part may be missing; fields and units are those
// of data/README.md.
struct ReportRun {
  // A file of the directory: whether it is there, and how many of its lines could not be used:
  // torn, no JSON object, without a field they must have, out of order, or beyond 64 KiB.
  struct File {
    std::string name;
    std::string holds;   // what it shows
    std::string option;  // with which training writes it; empty: always, or where there is cause
    bool found = false;
    std::int64_t lines = 0;
    std::int64_t skipped = 0;
    std::string problem;  // one line, where it could not be read at all
  };
  struct Alarm {
    double step = 0;
    std::string kind;
    std::string message;
    std::optional<std::int64_t> layer;
    std::optional<std::int64_t> head;
    std::optional<double> value;
  };
  struct Setting {
    std::string group;
    std::string name;
    std::string value;
  };
  struct Summary {
    std::string status;  // empty: there is no summary
    std::string message;
    std::string command_line;
    std::string version;
    std::optional<double> steps, best_val_loss, elapsed_seconds, parameters, threads;
  };

  std::string name;  // the directory as it was given
  std::vector<File> files;
  std::map<std::string, StepSeries> metrics;  // by field; share_entropy_... as entropy_...
  HeadSeries entropy;         // normalised, of the training batches where they are logged
  std::string entropy_split;  // "train" or "val"
  bool shares = false;        // the entropies are of shares of weights that are no distribution
  std::map<std::string, StepSeries> gradient_rms;         // by parameter
  std::map<std::string, StepSeries> update_ratio;         // by parameter: update RMS / weight RMS
  std::map<std::string, std::int64_t> elements;           // of each parameter; empty: not known
  std::map<std::int64_t, StepSeries> residual_rms;        // by layer, of the stream after it
  std::map<std::int64_t, StepSeries> dead_share;          // by layer, of feed-forward units
  HeadSeries previous_token, duplicate_token, induction;  // detector scores
  std::vector<Alarm> alarms;
  Summary summary;
  std::vector<Setting> settings;  // config.toml, in the order of the help text

  AttentionPatterns patterns;            // of one input
  std::vector<std::string> token_texts;  // its tokens as people read them
  std::string patterns_missing;          // one line: why there are none; empty: there are

  // Null: it was never logged.
  [[nodiscard]] const StepSeries* metric(const std::string& field) const;
};

// Everything but what needs the checkpoint: elements, patterns, token_texts, patterns_missing.
// Throws IoError where `directory` is none, or holds no file of a run.
[[nodiscard]] ReportRun read_report_run(const std::filesystem::path& directory);

}  // namespace attune
