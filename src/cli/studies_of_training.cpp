#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/observe/batch_gradient.h"
#include "attune/observe/sharpness.h"
#include "attune/observe/short_training.h"
#include "attune/observe/study_lr.h"
#include "attune/observe/study_noise.h"
#include "cli/study.h"

// Studies of the first steps of training.
namespace attune::cli {
namespace {

CommandOption own(std::string name, std::string help, std::string value_name, std::string value) {
  return {.name = std::move(name),
          .aliases = {},
          .group = "",
          .help = std::move(help),
          .value_name = std::move(value_name),
          .default_value = std::move(value)};
}

CommandOption at_steps(std::string value) {
  return own("at", "updates after which it is measured, ascending; made at the rate --lr",
             "STEP,STEP,...", std::move(value));
}

std::vector<std::int64_t> steps_of(const Arguments& arguments, const Study& study) {
  std::vector<std::int64_t> steps;
  for (const double step : study_numbers(arguments, study, "at", 0, 1e6)) {
    const auto whole = static_cast<std::int64_t>(step);
    if (static_cast<double>(whole) != step || (!steps.empty() && whole <= steps.back()))
      throw ConfigError(fmt::format("--at: {} is not a whole number above the one before it",
                                    format_float(step)));
    steps.push_back(whole);
  }
  return steps;
}

void train_to(ShortTraining& training, std::int64_t step, double rate) {
  while (training.steps() < step) training.step(rate);
}

std::vector<StudyTable> measure_sharpness(const StudyContext& context);

Study sharpness_study() {
  return {
      .name = "sharpness",
      .summary = "largest eigenvalue of the Hessian of the loss, and the rate it allows",
      .description =
          "The curvature of the mean loss of one batch by all parameters: the largest eigenvalue "
          "of the Hessian, by accelerated power iteration on central differences of gradients in "
          "float64. "
          "Plain gradient descent is stable below the rate 2 / sharpness (Cohen et al. 2021). "
          "residual |H v - lambda v| bounds the error; it has not converged where iterations reach "
          "--iterations.",
      .task = "copy",
      .trains = true,
      .seeds = 3,
      .defaults = {{"batch-size", "16"}, {"dtype", "float64"}, {"init", "xavier,gpt2"}},
      .options = {at_steps("0,20"),
                  own("iterations", "at most so many; each takes two gradients", "N", "100"),
                  own("tolerance", "residual at which it ends, relative to the eigenvalue", "X",
                      "0.02")},
      .measure = measure_sharpness,
      .panels = {{"sharpness", "largest eigenvalue of the Hessian", "sharpness", {"sharpness"}}}};
}

std::vector<StudyTable> measure_sharpness(const StudyContext& context) {
  static const Study study = sharpness_study();
  SharpnessOptions options;
  options.most_iterations = study_count(context.arguments, study, "iterations", 1, 100000);
  options.tolerance = study_number(context.arguments, study, "tolerance", 0, 1);
  options.seed = static_cast<std::uint64_t>(context.config.seed);
  if (context.config.dtype != DType::float64)
    throw ConfigError("--dtype: sharpness is measured in float64 alone");
  ShortTraining training(context.config, context.task);
  const Batch batch = training.batches().evaluation(Split::train, 0, context.config.batch_size);
  StudyTable table{"sharpness",
                   "step",
                   {"loss_nats", "sharpness", "residual", "iterations", "largest_stable_rate"},
                   {}};
  for (const std::int64_t step : steps_of(context.arguments, study)) {
    train_to(training, step, context.config.schedule.lr);
    const auto gradient = [&] {
      BatchGradient found = batch_gradient(training.model(), batch);
      for (Array& array : found.of_sum) {
        for (double& value : array.mutable_data<double>())
          value /= static_cast<double>(found.scored);
      }
      return std::move(found.of_sum);
    };
    const Sharpness found = sharpness(training.model().parameters(), gradient, options);
    table.rows.push_back(
        {std::to_string(step),
         {batch_gradient(training.model(), batch).loss_nats, found.eigenvalue, found.residual,
          static_cast<double>(found.iterations), 2 / found.eigenvalue}});
  }
  return {std::move(table)};
}

std::vector<StudyTable> measure_noise(const StudyContext& context);

Study noise_study() {
  return {
      .name = "noise",
      .summary = "gradient noise scale: the batch size beyond which more examples help little",
      .description =
          "The simple noise scale tr(S) / |G|^2 of McCandlish et al. 2018 in examples: the batch "
          "at which the noise of a gradient is as large as the gradient. From gradients of "
          "--parts batches of --part examples and of all of them together, by estimators without "
          "bias; so |G|^2 may come out below 0 where noise hides it. A ratio of two means: seeds "
          "that differ much want more parts, not more seeds.",
      .task = "copy",
      .trains = true,
      .seeds = 3,
      .options = {at_steps("0,30,100"), own("part", "examples of a small batch", "N", "4"),
                  own("parts", "small batches; all together are the large one", "N", "64")},
      .measure = measure_noise,
      .panels = {{"noise", "gradient noise scale", "examples", {"noise_scale"}, false, true},
                 {"noise",
                  "gradient and noise of one example",
                  "square norm",
                  {"gradient_square", "noise"},
                  false,
                  true}}};
}

std::vector<StudyTable> measure_noise(const StudyContext& context) {
  static const Study study = noise_study();
  const std::int64_t part = study_count(context.arguments, study, "part", 1, 1 << 16);
  const std::int64_t parts = study_count(context.arguments, study, "parts", 2, 1 << 16);
  ShortTraining training(context.config, context.task);
  StudyTable table{"noise", "step", {"gradient_square", "noise", "noise_scale"}, {}};
  for (const std::int64_t step : steps_of(context.arguments, study)) {
    train_to(training, step, context.config.schedule.lr);
    const NoiseScale found = measure_noise_scale(training.model(), training.batches(), part, parts);
    table.rows.push_back(
        {std::to_string(step), {found.gradient_square, found.noise, found.examples()}});
  }
  return {std::move(table)};
}

std::vector<StudyTable> measure_lr(const StudyContext& context);

Study lr_study() {
  return {
      .name = "lr",
      .summary = "learning-rate range test: the loss while the rate grows, and a rate to take",
      .description =
          "One short training whose rate grows by the same factor each step (Smith 2017). "
          "steepest: the rate at which the smoothed loss falls fastest; lowest: at which it is "
          "smallest; diverges: from which on it is a tenth above its first value (-: never). "
          "suggested: the smaller of steepest and a third of lowest, for --lr.",
      .task = "copy",
      .trains = true,
      .seeds = 3,
      .options = {own("low", "the first rate", "X", "1e-5"), own("high", "the last rate", "X", "1"),
                  own("steps", "updates from one to the other", "N", "150")},
      .measure = measure_lr,
      .panels = {
          {"losses", "loss while the rate grows", "nats a token", {"smoothed_loss"}, true, false}}};
}

std::vector<StudyTable> measure_lr(const StudyContext& context) {
  static const Study study = lr_study();
  RateRange range;
  range.low = study_number(context.arguments, study, "low", 1e-12, 1e6);
  range.high = study_number(context.arguments, study, "high", 1e-12, 1e6);
  range.steps = study_count(context.arguments, study, "steps", 2, 1000000);
  if (range.low >= range.high)
    throw ConfigError(fmt::format("--low: {} is not below --high {}", format_float(range.low),
                                  format_float(range.high)));
  const RangeTest found = range_test(context.config, context.task, range);
  StudyTable rates{"rates",
                   "",
                   {"suggested", "steepest", "lowest", "diverges"},
                   {{"", {found.suggested, found.steepest, found.lowest, found.diverges}}}};
  StudyTable losses{"losses", "rate", {"loss", "smoothed_loss"}, {}};
  for (std::size_t i = 0; i < found.rates.size(); ++i)
    losses.rows.push_back(
        {fmt::format("{:.3g}", found.rates[i]), {found.losses[i], found.smoothed[i]}});
  return {std::move(rates), std::move(losses)};
}

}  // namespace

std::vector<Study> studies_of_training() { return {sharpness_study(), noise_study(), lr_study()}; }

}  // namespace attune::cli
