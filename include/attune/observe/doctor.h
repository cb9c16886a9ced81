#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "attune/model/transformer.h"
#include "attune/task/task.h"
#include "attune/train/run_config.h"

// The checks of `attune doctor`: what must hold of a model and its training before a long run.
namespace attune {

// What is examined.
struct DoctorSubject {
  RunConfig config;  // resolved
  const Task& task;
  // Makes the model of a seed in a precision; several are made. Models of one seed are equal.
  std::function<std::unique_ptr<Transformer>(std::uint64_t seed, DType dtype)> make_model;
  // Of every pass but those of whole training steps (threads); null: none.
  Hooks* hooks = nullptr;
};
// The model that `attune train` would train.
[[nodiscard]] DoctorSubject doctor_subject(const RunConfig& config, const Task& task);

struct DoctorOptions {
  // Work is bounded by it: fewer examples, shorter texts, fewer steps and parameters where a model
  // is large. Not a promise: every check does its smallest amount of work.
  double seconds = 10;
};

enum class DoctorVerdict : std::uint8_t { passed, failed, skipped };

struct DoctorRow {
  std::string check;
  DoctorVerdict verdict = DoctorVerdict::passed;
  std::string figure;  // what was measured
  std::string advice;  // where it failed: what to do about it; where it was skipped: why
  double seconds = 0;
};

struct DoctorReport {
  std::vector<DoctorRow> rows;
  std::string bounds;  // what was cut down to stay within the time; empty: nothing
  // Something was checked and nothing failed.
  [[nodiscard]] bool passed() const;
};

// One row each:
//   initial loss        of a fresh model lies within 0.25 nats of what its initialisation predicts,
//                       and no more than 1 nat above ln V. Predicted are logits N(0, s^2) that know
//                       nothing of the target, s^2 = width * variance of the head's weights * mean
//                       square of what it reads: ln V + s^2 / 2, or s sqrt(2 ln V) beyond s =
//                       sqrt(2 ln V). With a tied head the token at hand has the logit that its
//                       embedding gives it, which is measured
//   gradients           every parameter gets a gradient that is not 0; names those that do not
//   causality           tokens behind a position change no logit up to it (float64, random
//   weights);
//                       skipped where the mask is not causal
//   batch independence  other examples change no logit of this one (the same)
//   overfitting         one batch, 100 steps at most at the full rate without dropout: the loss
//   falls
//                       to half; to 0.9 of the start where there was time for 20 steps or fewer
//   gradient check      of the loss by each parameter along a random direction, float64, against
//                       finite differences, within 1e-6
//   checkpoint          written, read into another model and optimizer, and written again: the same
//                       bytes
//   threads             two training steps on one and on two threads give the same weights, bitwise
// A check that throws has failed, with the message as its advice.
[[nodiscard]] DoctorReport run_doctor(const DoctorSubject& subject,
                                      const DoctorOptions& options = {});

// The table (check, verdict, figure, time), then a line or two for each failure and skipped check.
[[nodiscard]] std::string to_text(const DoctorReport& report);

}  // namespace attune
