#pragma once

#include <memory>

#include "attune/nn/pass.h"
#include "attune/observe/doctor.h"
#include "attune/ops/loss.h"

// What the checks of the doctor share; each returns its row without name and time.
namespace attune::doctor {

// What is examined, and how much of it there is time for. Making a large model takes as long as
// many passes through it, so those that no check changes are made once.
struct Patient {
  const DoctorSubject& subject;
  double seconds;                      // of the whole examination
  std::unique_ptr<Transformer> fresh;  // in the precision of the configuration
  // In float64, with weights that are random and far from 0: what can pass through them does.
  std::unique_ptr<Transformer> spread;
  Batch batch;                 // of the first training step, cut to what there is time for
  double forward_seconds = 0;  // of one example of it, on the tape

  [[nodiscard]] const RunConfig& config() const { return subject.config; }
  [[nodiscard]] std::uint64_t seed() const { return static_cast<std::uint64_t>(config().seed); }
  // A model of its own, for a check that trains it.
  [[nodiscard]] std::unique_ptr<Transformer> model() const {
    return subject.make_model(seed(), config().dtype);
  }
  [[nodiscard]] Pass pass(Tape* tape = nullptr) const;
  // Of scored tokens, without smoothing.
  [[nodiscard]] CrossEntropy loss(const Transformer& model, const Batch& part,
                                  const Pass& pass) const;
};

[[nodiscard]] TokenBatch tokens_of(const Batch& batch);
// What a check found; the advice is for where it is not sound.
[[nodiscard]] DoctorRow judged(bool is_sound, std::string figure, std::string advice);

[[nodiscard]] DoctorRow initial_loss(const Patient& patient);
[[nodiscard]] DoctorRow gradients(const Patient& patient);
[[nodiscard]] DoctorRow causality(const Patient& patient);
[[nodiscard]] DoctorRow batch_independence(const Patient& patient);
[[nodiscard]] DoctorRow overfitting(const Patient& patient);
[[nodiscard]] DoctorRow gradient_check(const Patient& patient);
[[nodiscard]] DoctorRow checkpoint(const Patient& patient);
[[nodiscard]] DoctorRow threads(const Patient& patient);

}  // namespace attune::doctor
