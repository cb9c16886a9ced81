#include "attune/observe/doctor.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/observe/gradcheck_suite.h"
#include "attune/observe/text_table.h"
#include "attune/train/trainer.h"
#include "observe/doctor_checks.h"

namespace attune {

namespace doctor {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Pass Patient::pass(Tape* tape) const {
  Pass pass;
  pass.tape = tape;
  pass.random = {seed(), 0};
  pass.hooks = subject.hooks;
  return pass;
}

TokenBatch tokens_of(const Batch& batch) { return {batch.tokens, batch.examples, batch.time}; }

DoctorRow judged(bool is_sound, std::string figure, std::string advice) {
  DoctorRow row;
  row.figure = std::move(figure);
  if (is_sound) return row;
  row.verdict = DoctorVerdict::failed;
  row.advice = std::move(advice);
  return row;
}

CrossEntropy Patient::loss(const Transformer& model, const Batch& part, const Pass& pass) const {
  return model.loss(tokens_of(part), part.targets, pass);
}

namespace {

constexpr std::int64_t kExamples = 8;  // in the batch that most checks look at
constexpr std::int64_t kLeastExamples = 2;
constexpr std::int64_t kLeastTime = 16;
// Of all the time, what one pass over the batch may take: hundreds of them are made.
constexpr double kPassShare = 0.003;

// The first `time` tokens of every example.
Batch shortened(const Batch& batch, std::int64_t time) {
  Batch result{batch.examples, time, {}, {}};
  for (std::int64_t b = 0; b < batch.examples; ++b) {
    const auto copy = [&](const std::vector<std::int32_t>& from, std::vector<std::int32_t>& to) {
      to.insert(to.end(), from.begin() + b * batch.time, from.begin() + b * batch.time + time);
    };
    copy(batch.tokens, result.tokens);
    copy(batch.targets, result.targets);
  }
  return result;
}

// The quickest of three: the first one also fetches memory.
double measured_forward(const Patient& patient, const Batch& one) {
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const Clock::time_point begin = Clock::now();
    Tape tape;
    (void)patient.loss(*patient.fresh, one, patient.pass(&tape));
    seconds = std::min(seconds, seconds_since(begin));
  }
  return seconds;
}

// Cuts the batch: texts are halved while one example alone takes too long, then examples.
std::string bound(Patient& patient) {
  const RunConfig& config = patient.config();
  const std::int64_t whole = config.batch_size * config.grad_accum;
  const std::int64_t examples = std::max(std::min(whole, kExamples), kLeastExamples);
  patient.batch = BatchSource(patient.subject.task, patient.seed(), config.train_size)
                      .train(0, 0, examples, std::max(whole, examples));
  if (patient.batch.scored() == 0) throw ConfigError("doctor: no token of the batch is scored");
  const std::int64_t time = patient.batch.time;
  const double allowed = kPassShare * patient.seconds;
  patient.forward_seconds = measured_forward(patient, patient.batch.slice(0, 1));
  while (patient.forward_seconds * kLeastExamples > allowed &&
         patient.batch.time / 2 >= kLeastTime) {
    const Batch shorter = shortened(patient.batch, patient.batch.time / 2);
    if (shorter.slice(0, 1).scored() == 0) break;
    patient.batch = shorter;
    patient.forward_seconds = measured_forward(patient, shorter.slice(0, 1));
  }
  const auto affordable = static_cast<std::int64_t>(allowed / patient.forward_seconds);
  patient.batch = patient.batch.slice(0, std::clamp(affordable, kLeastExamples, examples));
  if (patient.batch.time == time && patient.batch.examples == examples) return "";
  return fmt::format(
      "to stay near {:.0f} s the checks look at {} examples of {} tokens, not at {} of {}",
      patient.seconds, patient.batch.examples, patient.batch.time, examples, time);
}

struct Check {
  const char* name;
  DoctorRow (*run)(const Patient&);
};
constexpr Check kChecks[] = {
    {"initial loss", initial_loss}, {"gradients", gradients},
    {"causality", causality},       {"batch independence", batch_independence},
    {"overfitting", overfitting},   {"gradient check", gradient_check},
    {"checkpoint", checkpoint},     {"threads", threads},
};

DoctorRow examined(const Check& check, const Patient& patient) {
  const Clock::time_point begin = Clock::now();
  DoctorRow row;
  try {
    row = check.run(patient);
  } catch (const Error& error) {
    row.verdict = DoctorVerdict::failed;
    row.figure = "stopped by an error";
    row.advice = error.what();
  }
  row.check = check.name;
  row.seconds = seconds_since(begin);
  return row;
}

std::string_view to_string(DoctorVerdict verdict) {
  switch (verdict) {
    case DoctorVerdict::passed:
      return "ok";
    case DoctorVerdict::failed:
      return "FAILED";
    case DoctorVerdict::skipped:
      return "skipped";
  }
  return "";
}

}  // namespace
}  // namespace doctor

DoctorSubject doctor_subject(const RunConfig& config, const Task& task) {
  const TransformerConfig model = model_config(config, task);
  return {config, task, [model](std::uint64_t seed, DType dtype) {
            return std::make_unique<Transformer>(model, seed, dtype);
          }};
}

bool DoctorReport::passed() const {
  const auto is = [](DoctorVerdict verdict) {
    return [verdict](const DoctorRow& row) { return row.verdict == verdict; };
  };
  return std::ranges::none_of(rows, is(DoctorVerdict::failed)) &&
         std::ranges::any_of(rows, is(DoctorVerdict::passed));
}

DoctorReport run_doctor(const DoctorSubject& subject, const DoctorOptions& options) {
  const auto seed = static_cast<std::uint64_t>(subject.config.seed);
  doctor::Patient patient{.subject = subject,
                          .seconds = options.seconds,
                          .fresh = subject.make_model(seed, subject.config.dtype),
                          .spread = subject.make_model(seed, DType::float64),
                          .batch = {}};
  spread_parameters(patient.spread->parameters(), seed);
  DoctorReport report;
  report.bounds = doctor::bound(patient);
  for (const doctor::Check& check : doctor::kChecks)
    report.rows.push_back(doctor::examined(check, patient));
  return report;
}

std::string to_text(const DoctorReport& report) {
  std::size_t width = 0;
  for (const DoctorRow& row : report.rows) width = std::max(width, row.figure.size());
  TextTable table({"check", "verdict", "time", fmt::format("{:<{}}", "figure", width)});
  for (const DoctorRow& row : report.rows) {
    table.add({row.check, fmt::format("{:<7}", doctor::to_string(row.verdict)),
               fmt::format("{:.2f} s", row.seconds), fmt::format("{:<{}}", row.figure, width)});
  }
  std::string text = table.text();
  for (const DoctorRow& row : report.rows) {
    if (!row.advice.empty()) text += fmt::format("{}: {}\n", row.check, row.advice);
  }
  if (!report.bounds.empty()) text += report.bounds + '\n';
  return text;
}

}  // namespace attune
