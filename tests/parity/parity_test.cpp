#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "attune/model/transformer.h"
#include "attune/optim/optimizer.h"
#include "attune/train/training_step.h"

// Whole models against PyTorch: tests/parity/reference.json, written by scripts/make_reference.py,
// which says what models these are and how it writes an array.
namespace attune::parity_test {

using Json = nlohmann::json;

const Json& reference() {
  static const Json json = [] {
    std::ifstream file(ATTUNE_SOURCE_DIR "/tests/parity/reference.json");
    return Json::parse(file);
  }();
  return json;
}

// A gradient that is 0 in exact arithmetic has rounding errors of the size of others: errors are
// relative to the tensor's largest entry, or to this share of the largest of all gradients.
constexpr double kSmallestShare = 1e-2;

// Errors so far, the largest of each kind.
struct Errors {
  double logits = 0;
  double gradients = 0;
  double losses = 0;
};

TransformerConfig config_of(const Json& json) {
  static const std::map<std::string, Activation> kActivations{{"gelu", Activation::gelu},
                                                              {"gelu_tanh", Activation::gelu_tanh},
                                                              {"swiglu", Activation::swiglu}};
  static const std::map<std::string, NormKind> kNorms{{"layernorm", NormKind::layernorm},
                                                      {"rmsnorm", NormKind::rmsnorm}};
  static const std::map<std::string, NormPosition> kPlaces{{"pre", NormPosition::pre},
                                                           {"post", NormPosition::post}};
  TransformerConfig config;
  config.vocabulary = reference().at("vocabulary");
  config.block_size = reference().at("block_size");
  config.n_layer = json.at("n_layer");
  config.n_head = json.at("n_head");
  config.n_embd = json.at("n_embd");
  config.head_dim = json.at("head_dim");
  config.value_dim = json.at("value_dim");
  config.d_ff = json.at("d_ff");
  config.activation = kActivations.at(json.at("activation"));
  config.norm = kNorms.at(json.at("norm"));
  config.norm_position = kPlaces.at(json.at("norm_position"));
  config.positions = json.at("positions");
  config.mask = json.at("mask");
  config.bias = json.at("bias");
  config.tie_head = json.at("tie_head");
  return config;
}

// The weights that scripts/make_reference.py documents.
Transformer model_of(const Json& json, DType dtype) {
  Transformer model(config_of(json), 1, dtype);
  std::map<std::string, Parameter*> by_name;
  for (Parameter& parameter : model.parameters()) by_name[parameter.name()] = &parameter;
  std::int64_t k = 0;
  for (const auto& [name, parameter] : by_name) {
    const double offset = name.ends_with(".gain") ? 1 : 0;
    std::vector<double> values;
    for (std::int64_t i = 0; i < parameter->value().size(); ++i) {
      const std::int64_t phase = (7 * (i + 1) * (i + 1) + 13 * k) % 1009;
      values.push_back(offset + 0.3 * std::sin(static_cast<double>(phase)));
    }
    parameter->set_value(Array::from(parameter->shape(), values, dtype));
    ++k;
  }
  return model;
}

Batch reference_batch() {
  Batch batch;
  batch.examples = static_cast<std::int64_t>(reference().at("tokens").size());
  batch.time = static_cast<std::int64_t>(reference().at("tokens").at(0).size());
  for (const Json& row : reference().at("tokens")) {
    for (const Json& token : row) batch.tokens.push_back(token);
  }
  for (const Json& row : reference().at("targets")) {
    for (const Json& target : row) batch.targets.push_back(target);
  }
  return batch;
}

TokenBatch tokens_of(const Batch& batch) { return {batch.tokens, batch.examples, batch.time}; }

// The largest error of an array against [norm, largest, probe, samples ...], relative to the
// largest entry, or to the norm where all entries take part; `smallest` bounds both from below.
double error_of(const Array& actual, const Json& expected, double smallest) {
  const std::vector<double> x = actual.to_vector();
  double squares = 0, largest = 0, probe = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    squares += x[i] * x[i];
    largest = std::max(largest, std::abs(x[i]));
    probe += x[i] * std::sin(static_cast<double>(i + 1));
  }
  const double norm = expected.at(0);
  const double top = expected.at(1);
  const double whole_scale = std::max(norm, smallest), scale = std::max(top, smallest);
  std::vector<double> errors{std::abs(std::sqrt(squares) - norm) / whole_scale,
                             std::abs(probe - expected.at(2).get<double>()) / whole_scale,
                             std::abs(largest - top) / scale};
  const std::size_t samples = expected.size() - 3;
  for (std::size_t j = 0; j < samples; ++j) {
    const double sample = x.at((2 * j + 1) * x.size() / (2 * samples));
    errors.push_back(std::abs(sample - expected.at(3 + j).get<double>()) / scale);
  }
  for (const double error : errors) {
    if (!std::isfinite(error)) return HUGE_VAL;
  }
  return *std::ranges::max_element(errors);
}

// gradients: by parameter index.
double error_of_gradients(const Transformer& model, const std::vector<Array>& gradients,
                          const Json& expected, double tolerance) {
  double largest = 0, worst = 0;
  for (const Json& summary : expected) largest = std::max(largest, summary.at(1).get<double>());
  EXPECT_EQ(static_cast<std::size_t>(model.parameters().count()), expected.size());
  for (const Parameter& parameter : model.parameters()) {
    if (!expected.contains(parameter.name())) {
      ADD_FAILURE() << "the reference has no " << parameter.name();
      continue;
    }
    const Array& gradient = gradients.at(static_cast<std::size_t>(parameter.index()));
    const double error =
        error_of(gradient, expected.at(parameter.name()), kSmallestShare * largest);
    EXPECT_LE(error, tolerance) << parameter.name();
    worst = std::max(worst, error);
  }
  return worst;
}

// By one tape over the whole batch.
std::vector<Array> gradients_of(const Transformer& model, const Batch& batch, double smoothing) {
  Tape tape;
  Pass pass;
  pass.tape = &tape;
  const CrossEntropy loss = model.loss(tokens_of(batch), batch.targets, pass, smoothing);
  const Array seed = Array::scalar(1 / static_cast<double>(loss.scored), model.dtype());
  const Gradients gradients = tape.backward(loss.loss_sum, seed);
  std::vector<Array> by_index;
  for (const Parameter& parameter : model.parameters()) by_index.push_back(gradients[parameter]);
  return by_index;
}

std::vector<double> train(Transformer& model, const Batch& batch, double smoothing) {
  const Json& training = reference().at("training");
  OptimizerConfig config;
  config.beta1 = training.at("beta1");
  config.beta2 = training.at("beta2");
  config.eps = training.at("eps");
  config.weight_decay = training.at("weight_decay");
  const double clip = training.at("grad_clip");
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(config);
  ThreadPool pool(1);
  TrainingStep step(model, pool, 2);
  std::vector<double> losses;
  for (int i = 0; i < training.at("steps").get<int>(); ++i) {
    const StepResult result = step.run({&batch, 1}, {.label_smoothing = smoothing});
    const double scale = std::min(1.0, clip / result.gradient_norm);
    optimizer->step(model.parameters(), result.gradients, scale, training.at("lr"), pool);
    losses.push_back(result.loss_nats);
  }
  return losses;
}

void compare(const Json& expected, DType dtype, double tolerance, Errors& errors) {
  const Batch examples = reference_batch();
  const double smoothing = expected.at("config").at("label_smoothing");
  Transformer model = model_of(expected.at("config"), dtype);

  const Array logits = model.logits(tokens_of(examples), Pass{}).value();
  const double logit_error = error_of(logits, expected.at("logits"), 0);
  EXPECT_LE(logit_error, tolerance) << "logits";
  errors.logits = std::max(errors.logits, logit_error);

  const double gradient_error = error_of_gradients(model, gradients_of(model, examples, smoothing),
                                                   expected.at("gradients"), tolerance);
  errors.gradients = std::max(errors.gradients, gradient_error);

  const std::vector<double> losses = train(model, examples, smoothing);
  ASSERT_EQ(losses.size(), expected.at("losses").size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double loss = expected.at("losses").at(i);
    const double error = std::abs(losses[i] - loss) / loss;
    EXPECT_LE(error, tolerance) << "loss of step " << i;
    errors.losses = std::max(errors.losses, error);
  }
}

void compare_all(DType dtype, double tolerance) {
  std::map<std::string, Errors> by_encoding;
  for (const Json& expected : reference().at("cases")) {
    const std::string encoding = expected.at("config").at("positions");
    SCOPED_TRACE(encoding + ", " + expected.at("architecture").get<std::string>());
    compare(expected, dtype, tolerance, by_encoding[encoding]);
  }
  for (const auto& [encoding, errors] : by_encoding) {
    const std::string line = fmt::format("logits {:.1e}, gradients {:.1e}, losses {:.1e}",
                                         errors.logits, errors.gradients, errors.losses);
    ::testing::Test::RecordProperty(encoding, line);
    fmt::print("{} {:<16}  {}\n", to_string(dtype), encoding, line);
  }
}

TEST(Parity, ReferenceHasEveryEncodingAndEveryArchitecture) {
  std::set<std::string> encodings, architectures;
  for (const Json& expected : reference().at("cases")) {
    const std::string encoding = expected.at("config").at("positions");
    const std::string architecture = expected.at("architecture");
    encodings.insert(encoding);
    architectures.insert(architecture);
    EXPECT_EQ(expected.at("losses").size(), 10u);
  }
  EXPECT_EQ(architectures.size(), 3u);
  for (const EncodingInfo& info : list_encodings()) {
    EXPECT_TRUE(encodings.contains(info.name)) << info.name;
  }
}

TEST(Parity, LogitsGradientsAndLossesEqualPyTorchInFloat64) { compare_all(DType::float64, 1e-10); }

TEST(Parity, LogitsGradientsAndLossesEqualPyTorchInFloat32) { compare_all(DType::float32, 1e-5); }

}  // namespace attune::parity_test
