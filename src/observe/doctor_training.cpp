#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/file.h"
#include "attune/core/text.h"
#include "attune/optim/optimizer.h"
#include "attune/train/checkpoint.h"
#include "attune/train/training_step.h"
#include "observe/doctor_checks.h"

// What training must do: learn, be saved, be the same on any number of threads.
namespace attune::doctor {
namespace {

// A loop of its own, with hooks: one batch again and again.
class OneBatch final {
 public:
  explicit OneBatch(const Patient& patient)
      : patient_(patient),
        model_(patient.model()),
        optimizer_(make_optimizer(patient.config().optimizer)) {}

  // One update; returns the loss before it, in nats per scored token.
  double step() {
    Tape tape;
    const CrossEntropy loss = patient_.loss(*model_, patient_.batch, patient_.pass(&tape));
    const auto scored = static_cast<double>(loss.scored);
    Gradients gradients = tape.backward(loss.loss_sum, Array::scalar(1 / scored, model_->dtype()));
    const double norm = gradients.global_norm();
    const double clip = patient_.config().grad_clip;
    std::vector<Array> by_index(static_cast<std::size_t>(model_->parameters().count()));
    for (Gradients::Entry& entry : gradients.entries()) {
      if (entry.parameter)
        by_index[static_cast<std::size_t>(entry.parameter->index())] = std::move(entry.gradient);
    }
    optimizer_->step(model_->parameters(), by_index, clip > 0 && norm > clip ? clip / norm : 1,
                     patient_.config().schedule.lr, pool_);
    return loss.nats / scored;
  }

  [[nodiscard]] Transformer& model() { return *model_; }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }

 private:
  const Patient& patient_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Optimizer> optimizer_;
  ThreadPool pool_{1};
};

// A directory that goes when its check ends.
class TemporaryDirectory final {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "attune-doctor-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw IoError(fmt::format("{}: no directory can be made there", name));
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string after_two_steps(const Patient& patient, int threads) {
  const auto model = patient.model();
  const auto optimizer = make_optimizer(patient.config().optimizer);
  ThreadPool pool(threads);
  TrainingStep training(*model, pool, patient.config().shards);
  for (std::uint32_t step = 0; step < 2; ++step) {
    TrainingStep::Options options;
    options.random = {patient.seed(), step};
    const StepResult result = training.run({&patient.batch, 1}, options);
    optimizer->step(model->parameters(), result.gradients, 1, patient.config().schedule.lr, pool);
  }
  return model->parameters().hash();
}

}  // namespace

DoctorRow overfitting(const Patient& patient) {
  constexpr int kMostSteps = 100;
  constexpr int kFewSteps = 20;
  constexpr double kHalf = 0.5;
  constexpr double kBelow = 0.9;  // where there was time for few steps
  constexpr double kShare = 0.4;  // of the time
  OneBatch training(patient);
  const auto begin = std::chrono::steady_clock::now();
  const double start = training.step();
  double loss = start;
  int steps = 0;
  while (steps < kMostSteps && loss > kHalf * start) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (steps >= 2 && took.count() > kShare * patient.seconds) break;
    loss = training.step();  // that of the state after one step more
    ++steps;
  }
  const double wanted = steps <= kFewSteps ? kBelow : kHalf;
  return judged(
      loss <= wanted * start,
      fmt::format("loss {:.3f} to {:.3f} in {} steps on {} examples", start, loss, steps,
                  patient.batch.examples),
      fmt::format(
          "a model that cannot learn a few examples by heart will not learn more: try another --lr "
          "(now {}), --init or --norm-pos pre, and see whether gradients above are very small",
          format_float(patient.config().schedule.lr)));
}

DoctorRow checkpoint(const Patient& patient) {
  OneBatch trained(patient);
  (void)trained.step();
  const TemporaryDirectory directory;
  const std::filesystem::path first = directory.path() / "first.safetensors";
  const std::filesystem::path second = directory.path() / "second.safetensors";
  const CheckpointState state{.step = 1,
                              .optimizer_updates = trained.optimizer().updates(),
                              .config_toml = "",
                              .vocabulary = patient.subject.task.vocabulary_texts(),
                              .blas_kernel = "",
                              .best_val_loss = 0,
                              .counters = {}};
  save_checkpoint(first, state, trained.model().parameters(), trained.optimizer());
  const auto other = patient.subject.make_model(patient.seed() + 1, patient.config().dtype);
  const auto optimizer = make_optimizer(patient.config().optimizer);
  Checkpoint(first).restore(other->parameters(), *optimizer);
  save_checkpoint(second, state, other->parameters(), *optimizer);

  const std::string bytes = read_file(first);
  const bool is_same = bytes == read_file(second) &&
                       other->parameters().hash() == trained.model().parameters().hash();
  return judged(
      is_same,
      fmt::format("{} bytes, {}", format_count(static_cast<std::int64_t>(bytes.size())),
                  is_same ? "the same when read back" : "others when read back"),
      "a run that is resumed would go on from other weights: do not rely on --resume, and "
      "report it");
}

DoctorRow threads(const Patient& patient) {
  const std::string one = after_two_steps(patient, 1);
  const std::string two = after_two_steps(patient, 2);
  return judged(
      one == two,
      one == two ? fmt::format("weights {} on 1 and on 2", one)
                 : fmt::format("weights {} on 1, {} on 2", one, two),
      "runs cannot be repeated: look for an operation of your own that keeps a state from call to "
      "call or draws numbers that are no function of their place");
}

}  // namespace attune::doctor
