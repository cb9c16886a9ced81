#include "attune/observe/replay.h"

#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/train/trainer.h"
#include "attune/train/training_step.h"

namespace attune {
namespace {

std::string line_of(const ReplayedStep& step) {
  const std::string_view dtype = to_string(step.dtype);
  if (step.anomaly()) return fmt::format("{}: {}\n", dtype, to_string(step.anomaly()->anomaly));
  return fmt::format("{}: every value and gradient is finite, loss {:.6g}, gradient norm {:.3g}\n",
                     dtype, step.loss_nats, step.gradient_norm);
}

// Whether what overflowed is the value that stands in the table, or something inside the op.
std::string overflow_text(const Anomaly& anomaly, const AnomalyTrace& float64) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const AnomalyTrace::Seen seen = float64.seen(anomaly.value.slot, anomaly.value.maker);
  const bool backward = anomaly.kind == Anomaly::Kind::backward;
  const std::optional<double> size = backward ? seen.largest_gradient : seen.largest;
  const std::string where = anomaly.path.empty() ? "" : " in " + anomaly.path;
  if (size && *size > kLargest) {
    return fmt::format("{}{} reaches {:.3g}, float32 ends at 3.4e38", anomaly.op, where, *size);
  }
  return fmt::format("inside {}{} a number leaves the range of float32", anomaly.op, where);
}

std::string verdict_text(const ReplayedStep& own, const ReplayedStep& float64) {
  switch (verdict(own, float64)) {
    case ReplayVerdict::poisoned_parameter:
      return "the step began with a parameter that is not finite: an update before it, or what set "
             "the weight, is at fault. Go on from the last checkpoint with a smaller --lr or with "
             "--grad-clip";
    case ReplayVerdict::overflow:
      return "float32 overflows, the step itself is sound: " +
             overflow_text(own.anomaly()->anomaly, float64.tracer->trace(own.anomaly()->place)) +
             ". A smaller --lr, --grad-clip, --qk-norm or --softcap keep numbers small";
    case ReplayVerdict::fault:
      return "not finite in float64 either: no matter of precision, the op is given numbers where "
             "it has no value or no slope";
    case ReplayVerdict::not_reproduced:
      return "finite this time, in the run's own precision, too: another BLAS kernel or another "
             "program wrote the step";
  }
  return "";
}

}  // namespace

ReplayedStep replay(const SavedStep& step, const RunConfig& config, DType dtype, ThreadPool& pool) {
  std::int64_t elements = 0;
  for (const auto& [name, value] : step.parameters) elements += value.size();
  Transformer model(config.model_over(step.vocabulary), static_cast<std::uint64_t>(config.seed),
                    dtype, elements);
  restore_parameters(step, model.parameters());

  ReplayedStep result{.dtype = dtype, .tracer = std::make_unique<AnomalyTracer>()};
  StepObserver* const observers[] = {result.tracer.get()};
  TrainingStep::Options options = step_options(config, step.step);
  options.observers = observers;
  const StepResult found =
      TrainingStep(model, pool, config.shards).run(step.micro_batches, options);
  if (found.scored == 0) throw IoError("the saved step has no scored token");
  result.loss_nats = found.loss_nats;
  result.gradient_norm = found.gradient_norm;
  (void)result.tracer->verdict({step.step, step.micro_batches, model, found});
  return result;
}

ReplayVerdict verdict(const ReplayedStep& own, const ReplayedStep& float64) {
  if (!own.anomaly() && !float64.anomaly()) return ReplayVerdict::not_reproduced;
  if (own.anomaly() && own.anomaly()->anomaly.kind == Anomaly::Kind::parameter)
    return ReplayVerdict::poisoned_parameter;
  return float64.anomaly() ? ReplayVerdict::fault : ReplayVerdict::overflow;
}

std::string to_text(const ReplayedStep& own, const ReplayedStep& float64) {
  const bool is_one = own.dtype == DType::float64;
  std::string text = line_of(own) + (is_one ? "" : line_of(float64));
  text += verdict_text(own, float64) + ".\n";
  if (!own.anomaly()) return text;
  const StepAnomaly& found = *own.anomaly();
  return text + fmt::format("\nmicro-batch {}, shard {}, largest magnitudes:\n{}",
                            found.place.micro_batch, found.place.shard,
                            anomaly_table(found.anomaly,
                                          is_one ? nullptr : &float64.tracer->trace(found.place)));
}

}  // namespace attune
