#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attune/core/random.h"
#include "attune/nn/masks.h"
#include "observe/doctor_checks.h"

// What a logit must not depend on: tokens behind it, other examples.
namespace attune::doctor {
namespace {

// Rounding, relative to the largest logit; in float64 anything above it is a connection.
constexpr double kNoConnection = 1e-10;

std::vector<double> logits_of(const Patient& patient, const Transformer& model,
                              const Batch& batch) {
  return model.logits(tokens_of(batch), patient.pass()).value().to_vector();
}

// A token that is another one than `token`.
std::int32_t another(std::int32_t token, std::int64_t vocabulary, RandomCursor& cursor) {
  if (vocabulary < 2) return token;
  const auto shift = 1 + cursor.below(static_cast<std::uint32_t>(vocabulary - 1));
  return static_cast<std::int32_t>((token + static_cast<std::int64_t>(shift)) % vocabulary);
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

// The largest |a - b| relative to `scale`; infinite where one of them is not finite.
struct Difference {
  double relative = 0;
  void note(double a, double b, double scale) {
    const double distance = std::abs(a - b) / std::max(scale, 1e-300);
    relative = std::isfinite(distance) ? std::max(relative, distance) : INFINITY;
  }
};

// The batch with other tokens behind a position that is each example's own; `last_kept` has these.
Batch with_other_futures(const Patient& patient, std::vector<std::int64_t>& last_kept) {
  Batch changed = patient.batch;
  const std::int64_t time = changed.time;
  const RandomStream stream = Randomness{patient.seed(), 0}.stream("doctor.causality");
  for (std::int64_t b = 0; b < changed.examples; ++b) {
    last_kept.push_back(b * (time - 1) / changed.examples);
    RandomCursor cursor(stream, static_cast<std::uint32_t>(b));
    for (std::int64_t t = last_kept.back() + 1; t < time; ++t) {
      std::int32_t& token = changed.tokens[static_cast<std::size_t>(b * time + t)];
      token = another(token, patient.spread->config().vocabulary, cursor);
    }
  }
  return changed;
}

}  // namespace

DoctorRow causality(const Patient& patient) {
  const TransformerConfig& config = patient.config().model;
  if (!make_mask(config.mask, config.mask_sizes).is_causal()) {
    DoctorRow row;
    row.verdict = DoctorVerdict::skipped;
    row.advice = fmt::format(
        "--mask {} lets tokens see later ones; to predict the next token, "
        "add causal",
        config.mask);
    return row;
  }
  const Transformer& model = *patient.spread;
  std::vector<std::int64_t> last_kept;
  const Batch changed = with_other_futures(patient, last_kept);
  const std::vector<double> before = logits_of(patient, model, patient.batch);
  const std::vector<double> after = logits_of(patient, model, changed);
  const std::int64_t vocabulary = model.config().vocabulary;
  const std::int64_t time = changed.time;
  const double scale = largest(before);
  Difference difference;
  for (std::int64_t b = 0; b < changed.examples; ++b) {
    const std::int64_t end = last_kept[static_cast<std::size_t>(b)] + 1;
    for (std::int64_t i = b * time * vocabulary; i < (b * time + end) * vocabulary; ++i)
      difference.note(before[static_cast<std::size_t>(i)], after[static_cast<std::size_t>(i)],
                      scale);
  }
  return judged(
      difference.relative <= kNoConnection,
      fmt::format("largest change of an earlier logit {:.1e}", difference.relative),
      "later tokens reach earlier logits, so that training learns to copy what it should predict: "
      "look for a hook, mask or operation that mixes positions");
}

DoctorRow batch_independence(const Patient& patient) {
  const Transformer& model = *patient.spread;
  const Batch alone = patient.batch.slice(0, 1);
  Batch changed = patient.batch;
  const RandomStream stream = Randomness{patient.seed(), 0}.stream("doctor.batch");
  for (std::int64_t b = 1; b < changed.examples; ++b) {
    RandomCursor cursor(stream, static_cast<std::uint32_t>(b));
    for (std::int64_t t = 0; t < changed.time; ++t) {
      std::int32_t& token = changed.tokens[static_cast<std::size_t>(b * changed.time + t)];
      token = another(token, model.config().vocabulary, cursor);
    }
  }
  const std::vector<double> by_itself = logits_of(patient, model, alone);
  const double scale = largest(by_itself);
  Difference difference;
  for (const Batch* batch : {&patient.batch, &std::as_const(changed)}) {
    const std::vector<double> among_others = logits_of(patient, model, *batch);
    for (std::size_t i = 0; i < by_itself.size(); ++i)
      difference.note(by_itself[i], among_others[i], scale);
  }
  return judged(
      difference.relative <= kNoConnection,
      fmt::format("largest change of a logit by other examples {:.1e}", difference.relative),
      "examples of a batch reach each other: look for an operation that mixes or normalises over "
      "the batch axis, or for randomness that depends on an example's neighbours");
}

}  // namespace attune::doctor
