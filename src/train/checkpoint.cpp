#include "attune/train/checkpoint.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/train/safetensors.h"
#include "train/metadata_reader.h"
#include "train/vocabulary_json.h"

namespace attune {
namespace {

constexpr std::string_view kOptimizerPrefix = "optim.";

// Keys of the metadata; data/README.md tells them.
constexpr const char* kVersionKey = "format_version";
constexpr const char* kStepKey = "step";
constexpr const char* kUpdates = "optimizer_updates";
constexpr const char* kConfig = "config";
constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kBlasKernel = "blas_kernel";
constexpr const char* kBestLoss = "best_val_loss";
constexpr std::string_view kCounterPrefix = "counter.";

using Tensors = std::vector<std::pair<std::string, Array>>;
using Metadata = std::map<std::string, std::string>;

std::string described(const Array& array) {
  return fmt::format("{} {}", to_string(array.dtype()), to_string(array.shape()));
}

Metadata metadata_of(const CheckpointState& state) {
  Metadata metadata{
      {kVersionKey, std::to_string(CheckpointState::kFormatVersion)},
      {kStepKey, std::to_string(state.step)},
      {kUpdates, std::to_string(state.optimizer_updates)},
      {kConfig, state.config_toml},
      {kVocabulary, vocabulary_text(state.vocabulary)},
      {kBlasKernel, state.blas_kernel},
      {kBestLoss, format_float(state.best_val_loss)},
  };
  for (const auto& [name, value] : state.counters) {
    metadata.emplace(std::string(kCounterPrefix) + name, format_float(value));
  }
  return metadata;
}

CheckpointState state_of(const Metadata& metadata, std::string_view source) {
  const MetadataReader reader(metadata, source);
  reader.check_version(kVersionKey, CheckpointState::kFormatVersion, "a checkpoint of a run");
  CheckpointState state;
  state.step = reader.count(kStepKey, std::numeric_limits<std::int64_t>::max());
  state.optimizer_updates = reader.count(kUpdates, state.step);
  state.config_toml = reader.text(kConfig);
  state.blas_kernel = reader.text(kBlasKernel);
  state.best_val_loss = reader.number(kBestLoss);
  state.vocabulary = reader.vocabulary(kVocabulary);
  for (const auto& [key, value] : metadata) {
    if (!key.starts_with(kCounterPrefix)) continue;
    state.counters.emplace(key.substr(kCounterPrefix.size()), reader.number(key));
  }
  return state;
}

// The array of every parameter, in the store's order; nothing is written.
std::vector<Array> matched(const ParameterStore& parameters, const Tensors& tensors,
                           std::string_view source) {
  std::unordered_map<std::string_view, const Array*> by_name;
  for (const auto& [name, array] : tensors) by_name.emplace(name, &array);
  std::vector<Array> values;
  for (const Parameter& parameter : parameters) {
    const auto found = by_name.find(parameter.name());
    if (found == by_name.end()) {
      throw IoError(fmt::format("{}: parameter {} is missing", source, parameter.name()));
    }
    const Array& array = *found->second;
    if (!(array.shape() == parameter.shape()) || array.dtype() != parameter.dtype()) {
      throw IoError(fmt::format("{}: parameter {} is {} but the model's is {}", source,
                                parameter.name(), described(array), described(parameter.value())));
    }
    values.push_back(array);
    by_name.erase(found);
  }
  for (const auto& [name, array] : tensors) {
    if (by_name.contains(name)) {
      throw IoError(
          fmt::format("{}: parameter {} is unknown to the model", source, printable(name)));
    }
  }
  return values;
}

void assign(ParameterStore& parameters, std::vector<Array> values) {
  for (Parameter& parameter : parameters) {
    parameter.set_value(std::move(values[static_cast<std::size_t>(parameter.index())]));
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const CheckpointState& state,
                     const ParameterStore& parameters, const Optimizer& optimizer) {
  TensorFile file;
  file.metadata = metadata_of(state);
  for (const Parameter& parameter : parameters) {
    if (parameter.name().starts_with(kOptimizerPrefix)) {
      throw ValueError(fmt::format("checkpoint: parameter {}: names in {} belong to the optimizer",
                                   parameter.name(), kOptimizerPrefix));
    }
    file.tensors.emplace_back(parameter.name(), parameter.value());
  }
  for (auto& tensor : optimizer.state(parameters)) file.tensors.push_back(std::move(tensor));
  write_file_atomically(path, encode_safetensors(file));
}

Checkpoint::Checkpoint(const std::filesystem::path& path) : source_(path.string()) {
  TensorFile file = decode_safetensors(read_file(path), source_);
  state_ = state_of(file.metadata, source_);
  for (auto& tensor : file.tensors) {
    const bool is_optimizer = tensor.first.starts_with(kOptimizerPrefix);
    (is_optimizer ? optimizer_ : parameters_).push_back(std::move(tensor));
  }
}

double Checkpoint::counter(const std::string& name, double otherwise, double least) const {
  constexpr double kMost = 9007199254740992;  // 2^53: whole numbers are exact up to here
  const auto found = state_.counters.find(name);
  const double value = found == state_.counters.end() ? otherwise : found->second;
  if (value >= least && value <= kMost) return value;
  throw IoError(fmt::format("{}: metadata {}{} is {}, expected a number from {} to 2^53", source_,
                            kCounterPrefix, name, format_float(value), format_float(least)));
}

std::int64_t Checkpoint::parameter_elements() const {
  std::int64_t elements = 0;
  for (const auto& [name, array] : parameters_) elements += array.size();
  return elements;
}

void Checkpoint::restore(ParameterStore& parameters) const {
  assign(parameters, matched(parameters, parameters_, source_));
}

void Checkpoint::restore(ParameterStore& parameters, Optimizer& optimizer) const {
  std::vector<Array> values = matched(parameters, parameters_, source_);
  try {
    optimizer.restore(parameters, state_.optimizer_updates, optimizer_);
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}: {}", source_, error.what()));
  }
  assign(parameters, std::move(values));
}

}  // namespace attune
