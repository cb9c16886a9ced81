#include "attune/observe/anomaly_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/train/safetensors.h"
#include "train/metadata_reader.h"
#include "train/vocabulary_json.h"

namespace attune {
namespace {

// Metadata and names; data/README.md tells them.
constexpr const char* kVersionKey = "anomaly_version";
constexpr const char* kStepKey = "step";
constexpr const char* kMicroBatches = "micro_batches";
constexpr const char* kConfig = "config";
constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kReport = "report";
constexpr std::int64_t kThisVersion = 1;
constexpr std::string_view kBatchPrefix = "batch.";

std::string batch_name(std::int64_t micro_batch, const char* what) {
  return fmt::format("{}{}.{}", kBatchPrefix, micro_batch, what);
}

Array numbers(const Batch& batch, const std::vector<std::int32_t>& tokens) {
  const std::vector<double> values(tokens.begin(), tokens.end());
  return Array::from({batch.examples, batch.time}, values, DType::float64);
}

// Reads a file's parts; every refusal names file and part.
class AnomalyReader final {
 public:
  AnomalyReader(TensorFile file, std::string source)
      : metadata_(std::move(file.metadata)), source_(std::move(source)) {
    for (auto& [name, array] : file.tensors) {
      if (name.starts_with(kBatchPrefix)) {
        batches_.emplace(name, std::move(array));
      } else {
        step_.parameters.emplace_back(name, std::move(array));
      }
    }
  }

  SavedStep step() {
    const MetadataReader reader(metadata_, source_);
    reader.check_version(kVersionKey, kThisVersion, "the step of an anomaly");
    step_.step = reader.count(kStepKey, std::numeric_limits<std::uint32_t>::max());
    step_.config_toml = reader.text(kConfig);
    step_.report = reader.text(kReport);
    step_.vocabulary = reader.vocabulary(kVocabulary);
    const std::int64_t micro_batches = reader.count(kMicroBatches, std::ssize(batches_));
    for (std::int64_t m = 0; m < micro_batches; ++m) step_.micro_batches.push_back(batch(m));
    return std::move(step_);
  }

 private:
  [[noreturn]] void fail(std::string_view name, std::string_view reason) const {
    throw IoError(fmt::format("{}: {} {}", source_, name, reason));
  }
  [[nodiscard]] Batch batch(std::int64_t micro_batch) const {
    Batch batch;
    batch.tokens = tokens(micro_batch, "tokens", 0, batch);
    Batch other;
    batch.targets = tokens(micro_batch, "targets", kIgnore, other);
    if (batch.examples != other.examples || batch.time != other.time)
      fail(batch_name(micro_batch, "targets"), "has another shape than the tokens");
    return batch;
  }

  // Also sets the extents of `batch`.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::int64_t micro_batch, const char* what,
                                                 std::int32_t least, Batch& batch) const {
    const std::string name = batch_name(micro_batch, what);
    const auto found = batches_.find(name);
    if (found == batches_.end()) fail(name, "is missing");
    const Array& array = found->second;
    if (array.shape().rank() != 2) fail(name, "is not of the shape [examples, time]");
    batch.examples = array.shape()[0];
    batch.time = array.shape()[1];
    std::vector<std::int32_t> tokens;
    const auto most = static_cast<double>(std::ssize(step_.vocabulary)) - 1;
    for (const double value : array.to_vector()) {
      const bool is_token = value >= least && value <= most && value == std::floor(value) &&
                            (value >= 0 || value == kIgnore);
      if (!is_token) fail(name, fmt::format("holds {}, which is no token", value));
      tokens.push_back(static_cast<std::int32_t>(value));
    }
    return tokens;
  }

  std::map<std::string, std::string> metadata_;
  std::string source_;
  std::unordered_map<std::string, Array> batches_;
  SavedStep step_;
};

}  // namespace

void save_step(const std::filesystem::path& path, const SavedStep& step) {
  TensorFile file;
  file.metadata = {{kVersionKey, std::to_string(kThisVersion)},
                   {kStepKey, std::to_string(step.step)},
                   {kMicroBatches, std::to_string(step.micro_batches.size())},
                   {kConfig, step.config_toml},
                   {kVocabulary, vocabulary_text(step.vocabulary)},
                   {kReport, step.report}};
  for (const auto& [name, value] : step.parameters) {
    if (name.starts_with(kBatchPrefix)) {
      throw ValueError(fmt::format("anomaly file: parameter {}: names in {} are those of batches",
                                   name, kBatchPrefix));
    }
    file.tensors.emplace_back(name, value);
  }
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Batch& batch = step.micro_batches[m];
    const auto index = static_cast<std::int64_t>(m);
    file.tensors.emplace_back(batch_name(index, "tokens"), numbers(batch, batch.tokens));
    file.tensors.emplace_back(batch_name(index, "targets"), numbers(batch, batch.targets));
  }
  write_file_atomically(path, encode_safetensors(file));
}

SavedStep load_step(const std::filesystem::path& file) {
  return AnomalyReader(decode_safetensors(read_file(file), file.string()), file.string()).step();
}

void restore_parameters(const SavedStep& step, ParameterStore& parameters) {
  std::unordered_map<std::string_view, const Array*> by_name;
  for (const auto& [name, value] : step.parameters) by_name.emplace(name, &value);
  if (std::ssize(step.parameters) != parameters.count()) {
    throw IoError(fmt::format("the saved step has {} parameters, the model {}",
                              step.parameters.size(), parameters.count()));
  }
  for (const Parameter& parameter : parameters) {
    const auto found = by_name.find(parameter.name());
    if (found == by_name.end() || found->second->shape() != parameter.shape()) {
      throw IoError(fmt::format("parameter {}: the saved step has none of the shape {}",
                                parameter.name(), to_string(parameter.shape())));
    }
  }
  for (Parameter& parameter : parameters)
    parameter.set_value(by_name.at(parameter.name())->cast(parameter.dtype()));
}

}  // namespace attune
