#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attune/core/text.h"
#include "attune/observe/gradcheck_suite.h"
#include "attune/ops/arithmetic.h"
#include "kernels/elementwise.h"
#include "observe/doctor_checks.h"

// What a fresh model must do: guess, and hear of every mistake.
namespace attune::doctor {
namespace {

constexpr double kAroundPrediction = 0.25;  // nats
constexpr double kAboveUniform = 1;         // nats

double mean_square(const Array& x) {
  return kernels::sum_of_squares(x) / static_cast<double>(std::max<std::int64_t>(x.size(), 1));
}

// The logit of the token at hand where the head is the table that the token was looked up in: the
// mean over tokens of hidden . embedding.
double own_logit(const Transformer& model, const Batch& batch, const Array& hidden) {
  const Array& table = model.parameters().find("token_embedding.weight")->value();
  const std::vector<double> rows = table.to_vector();
  const std::vector<double> states = hidden.to_vector();
  const auto width = static_cast<std::size_t>(table.shape().last());
  double sum = 0;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(batch.tokens[i]) * width;
    for (std::size_t k = 0; k < width; ++k) sum += states[i * width + k] * rows[row + k];
  }
  return sum / static_cast<double>(batch.tokens.size());
}

// ln sum_k e^(z_k) of `count` logits N(0, variance): the mean of e^z decides while the deviation is
// below sqrt(2 ln count), the largest logit beyond (the random energy model, Derrida 1981).
double log_sum_of_normal(double count, double variance) {
  const double critical = std::sqrt(2 * std::log(count));
  return std::sqrt(variance) <= critical ? std::log(count) + variance / 2
                                         : std::sqrt(variance) * critical;
}

double predicted_loss(const Transformer& model, const Batch& batch, const Pass& pass) {
  const TransformerConfig& config = model.config();
  const Array hidden = model.hidden(tokens_of(batch), pass).value();
  const InitScheme init(config.init, config.init_std, config.n_layer);
  const Role role = config.tie_head ? Role::embedding : Role::head;
  const double weight =
      init(role, {config.vocabulary, config.n_embd}).variance({config.vocabulary, config.n_embd});
  const double variance = static_cast<double>(config.n_embd) * weight * mean_square(hidden);
  const auto tokens = static_cast<double>(config.vocabulary);
  if (!config.tie_head) return log_sum_of_normal(tokens, variance);
  const double others = log_sum_of_normal(tokens - 1, variance);
  const double own = own_logit(model, batch, hidden);
  return std::max(others, own) + std::log1p(std::exp(-std::abs(others - own)));
}

}  // namespace

DoctorRow initial_loss(const Patient& patient) {
  const Transformer& model = *patient.fresh;
  const CrossEntropy found = patient.loss(model, patient.batch, patient.pass());
  const double loss = found.nats / static_cast<double>(found.scored);
  const double predicted = predicted_loss(model, patient.batch, patient.pass());
  const double uniform = std::log(static_cast<double>(model.config().vocabulary));
  DoctorRow row;
  row.figure = fmt::format("{:.3f} nats; predicted {:.3f} +- {}, ln V {:.3f}", loss, predicted,
                           kAroundPrediction, uniform);
  if (std::min(loss, predicted) > uniform + kAboveUniform) {
    row.verdict = DoctorVerdict::failed;
    row.advice = fmt::format(
        "the initialisation is too large for a model of this width, the first steps only undo it: "
        "lower --init-std (now {}) or choose another --init",
        format_float(model.config().init_std));
  } else if (!(std::abs(loss - predicted) <= kAroundPrediction)) {
    row.verdict = DoctorVerdict::failed;
    row.advice = loss < predicted
                     ? "an untrained model cannot know that much: look for a target among its "
                       "inputs, as with --mask none, and at the causality check"
                     : "the model starts out sure and wrong: look for weights or hooks that are "
                       "not as --init leaves them";
  }
  return row;
}

DoctorRow gradients(const Patient& patient) {
  const Transformer& model = *patient.fresh;
  Tape tape;
  const CrossEntropy loss = patient.loss(model, patient.batch, patient.pass(&tape));
  const Gradients gradients = tape.backward(loss.loss_sum);
  std::vector<std::string> without;
  std::string smallest;
  double smallest_rms = 0;
  std::size_t not_chosen = 0;  // experts that no scored token went to
  for (const Parameter& parameter : model.parameters()) {
    const Array* gradient = gradients.find(parameter);
    const double rms = gradient ? std::sqrt(mean_square(*gradient)) : 0;
    if (rms == 0) {
      if (parameter.options().optional) {
        ++not_chosen;
        continue;
      }
      without.push_back(parameter.name() + (parameter.is_frozen() ? " (frozen)" : ""));
    } else if (smallest.empty() || rms < smallest_rms) {
      smallest = parameter.name();
      smallest_rms = rms;
    }
  }
  const auto all = static_cast<std::size_t>(model.parameters().count());
  std::string figure = fmt::format("{} of {} parameters", all - without.size() - not_chosen, all);
  if (!smallest.empty())
    figure += fmt::format("; smallest RMS {:.1e} ({})", smallest_rms, smallest);
  if (not_chosen > 0) figure += fmt::format("; {} optional ones not chosen", not_chosen);
  return judged(
      without.empty(), figure,
      fmt::format(
          "no gradient reaches {}: the loss does not depend on it, or depends on it in a way that "
          "has no slope here; it will not be trained",
          fmt::join(without, ", ")));
}

namespace {

// Parameter by parameter; where all together take too long, some of them stand for the rest.
GradcheckReport checked_gradients(const Patient& patient) {
  constexpr double kShare = 0.3;     // of the time
  constexpr double kPassesEach = 9;  // three steps there and back; the loss and its gradient
  constexpr double kAgainstFloat32 = 2;
  ParameterStore& parameters = patient.spread->parameters();
  const Batch first = patient.batch.slice(0, 1);
  const Batch& batch = first.scored() > 0 ? first : patient.batch;
  const auto loss = [&](const Pass& pass) {
    const CrossEntropy found = patient.loss(*patient.spread, batch, pass);
    return multiply(found.loss_sum, 1 / static_cast<double>(found.scored));
  };
  const std::int64_t all = parameters.count();
  const double each = kPassesEach * kAgainstFloat32 * patient.forward_seconds;
  const auto affordable = static_cast<std::int64_t>(kShare * patient.seconds / each);
  const std::int64_t checked = std::clamp(affordable, std::min<std::int64_t>(all, 3), all);
  ParameterCheck options{.directions = 1, .seed = patient.seed()};
  if (checked == all) return gradcheck_parameters(parameters, loss, patient.pass(), options);
  GradcheckReport report{options.tolerance, {}};
  for (std::int64_t i = 0; i < checked; ++i) {
    options.only = parameters[i * all / checked].name();
    for (GradcheckRow& row : gradcheck_parameters(parameters, loss, patient.pass(), options).rows)
      report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace

DoctorRow gradient_check(const Patient& patient) {
  const GradcheckReport report = checked_gradients(patient);
  double worst = 0;
  std::vector<std::string> wrong;
  for (const GradcheckRow& one : report.rows) {
    worst = std::max(worst, one.max_error);
    if (!one.passed) wrong.push_back(one.name);
  }
  return judged(wrong.empty(),
                fmt::format("largest error {:.1e}, {} of {} parameters", worst, report.rows.size(),
                            patient.spread->parameters().count()),
                fmt::format("the backward pass disagrees with finite differences for {}; 'attune "
                            "gradcheck' says which "
                            "operation is at fault",
                            fmt::join(wrong, ", ")));
}

}  // namespace attune::doctor
