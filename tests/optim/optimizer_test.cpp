#include "attune/optim/optimizer.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attune/autodiff/tape.h"
#include "attune/core/error.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"

namespace attune::optimizer_test {

OptimizerConfig config_of(const std::string& kind, double weight_decay) {
  return {.kind = kind, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = weight_decay};
}

// One parameter [1] of value 1 after each of a sequence of updates with lr 0.1.
std::vector<double> trajectory(const OptimizerConfig& config, const std::vector<double>& gradients,
                               DType dtype = DType::float64, double gradient_scale = 1) {
  ParameterStore parameters;
  parameters.create("weight", Array::from({1}, {1.0}, dtype));
  const auto optimizer = make_optimizer(config);
  ThreadPool pool(1);
  std::vector<double> values;
  for (const double gradient : gradients) {
    const Array g = Array::from({1}, {gradient}, dtype);
    optimizer->step(parameters, std::span(&g, 1), gradient_scale, 0.1, pool);
    values.push_back(parameters[0].value().item());
  }
  return values;
}

void expect_values(const std::vector<double>& found, const std::vector<double>& expected,
                   double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance);
}

// Reference values: the update formulas of the papers in Python's double arithmetic.
TEST(Adam, FollowsThePaper) {  // B33
  expect_values(trajectory(config_of("adamw", 0), {1, -2, 0.5}),
                {0.900000001, 0.9366103534720749, 0.9502794196738216}, 1e-14);
}

TEST(Adam, FollowsThePaperInFloat32) {
  expect_values(trajectory(config_of("adamw", 0), {1, -2, 0.5}, DType::float32),
                {0.900000001, 0.9366103534720749, 0.9502794196738216}, 3e-7);
}

TEST(Adam, DecoupledDecayScalesWithTheLearningRate) {  // B33
  expect_values(trajectory(config_of("adamw", 0.1), {1, -2, 0.5}),
                {0.890000001, 0.9177103534620747, 0.9222023161292007}, 1e-14);
  expect_values(trajectory(config_of("adamw", 0.1), {0}), {0.99}, 1e-15);
}

TEST(Adam, AddedDecayPassesThroughTheMoments) {  // B33
  expect_values(trajectory(config_of("adam", 0.1), {1, -2, 0.5}),
                {0.9000000009090909, 0.9310642948391922, 0.937642154937361}, 1e-14);
  expect_values(trajectory(config_of("adam", 0.1), {0}), {0.900000009999999}, 1e-14);
}

TEST(Adam, EpsilonStaysOutsideTheCorrectedRoot) {  // B33
  for (const DType dtype : {DType::float32, DType::float64}) {
    ParameterStore parameters;
    parameters.create("weight", Array::from({1}, {1.0}, dtype));
    const Array g = Array::from({1}, {1e-8}, dtype);
    ThreadPool pool(1);
    make_optimizer(config_of("adamw", 0))->step(parameters, std::span(&g, 1), 1, 1.0, pool);
    EXPECT_NEAR(parameters[0].value().item(), 0.5, 1e-6);
  }
}

TEST(Adam, ZeroGradientLeavesParametersThatDoNotDecayBitwise) {  // B33
  ParameterStore parameters;
  const Array start = Array::from({3}, {0.1, -7.3, 0.0});
  parameters.create("gain", start.clone(), {.decays = false});
  const Array g = Array::zeros({3}, DType::float32);
  const auto optimizer = make_optimizer(config_of("adamw", 0.1));
  ThreadPool pool(1);
  for (int i = 0; i < 5; ++i) optimizer->step(parameters, std::span(&g, 1), 1, 0.1, pool);
  EXPECT_EQ(parameters[0].value().to_vector(), start.to_vector());
}

TEST(Sgd, FollowsMomentumWithAddedDecay) {
  expect_values(trajectory(config_of("sgd", 0.1), {1, -2, 0.5}), {0.89, 0.9821, 1.005169}, 1e-14);
}

TEST(Optimizer, ScalesGradientsAsTheyAreRead) {
  for (const char* kind : {"adamw", "adam", "sgd"}) {
    EXPECT_EQ(trajectory(config_of(kind, 0.1), {4, -8, 2}, DType::float64, 0.25),
              trajectory(config_of(kind, 0.1), {1, -2, 0.5}))
        << kind;
  }
}

// Parameters of sizes below, at and above a piece of work, with deterministic values.
struct Model {
  ParameterStore parameters;
  std::vector<Array> gradients;

  explicit Model(DType dtype = DType::float32) {
    const std::vector<std::int64_t> sizes{1, 0, 7, 16384, 3, 50021, 16385, 2, 40000};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      parameters.create("p" + std::to_string(i),
                        values(sizes[i], 0.1 * static_cast<double>(i), dtype),
                        {.decays = i % 2 == 0});
      gradients.push_back(values(sizes[i], 1.7 + static_cast<double>(i), dtype));
    }
  }
  static Array values(std::int64_t size, double phase, DType dtype) {
    std::vector<double> numbers(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(phase + 0.37 * static_cast<double>(i));
    }
    return Array::from({size}, numbers, dtype);
  }
};

TEST(Optimizer, ResultDoesNotDependOnTheThreads) {
  for (const char* kind : {"adamw", "adam", "sgd"}) {
    std::string expected;
    for (const int threads : {1, 2, 3, 16}) {
      Model model;
      const auto optimizer = make_optimizer(config_of(kind, 0.1));
      ThreadPool pool(threads);
      for (int i = 0; i < 3; ++i)
        optimizer->step(model.parameters, model.gradients, 0.5, 0.01, pool);
      if (threads == 1) expected = model.parameters.hash();
      EXPECT_EQ(model.parameters.hash(), expected) << kind << ", " << threads << " threads";
    }
  }
}

TEST(Optimizer, EveryElementOfEverySizeIsUpdatedOnce) {
  Model model(DType::float64);
  const Model before(DType::float64);
  const OptimizerConfig config = config_of("adamw", 0.1);
  ThreadPool pool(2);
  make_optimizer(config)->step(model.parameters, model.gradients, 1, 0.01, pool);
  for (std::int64_t p = 0; p < model.parameters.count(); ++p) {
    const std::vector<double> w = before.parameters[p].value().to_vector();
    const std::vector<double> g = before.gradients[static_cast<std::size_t>(p)].to_vector();
    const std::vector<double> found = model.parameters[p].value().to_vector();
    const double decay = p % 2 == 0 ? 0.1 : 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      // At t = 1 both corrected moments are those of g alone: the step is lr g / (|g| + eps).
      const double expected = w[i] - 0.01 * decay * w[i] - 0.01 * g[i] / (std::abs(g[i]) + 1e-8);
      ASSERT_NEAR(found[i], expected, 1e-9) << "parameter " << p << ", element " << i;
    }
  }
}

double square_sum(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

// Against loops over copies of the weights; measuring changes no bit of the update, and threads no
// bit of what is measured.
TEST(Optimizer, MeasuresWhatAnUpdateDid) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const char* kind : {"adamw", "sgd"}) {
      UpdateStatistics expected;
      for (const int threads : {1, 3}) {
        Model model(dtype);
        Model plain(dtype);
        ThreadPool pool(threads);
        const Model before(dtype);
        UpdateStatistics found;
        make_optimizer(config_of(kind, 0.1))
            ->step(model.parameters, model.gradients, 0.5, 0.01, pool, &found);
        make_optimizer(config_of(kind, 0.1))
            ->step(plain.parameters, plain.gradients, 0.5, 0.01, pool);
        EXPECT_EQ(model.parameters.hash(), plain.parameters.hash());
        for (std::int64_t p = 0; p < model.parameters.count(); ++p) {
          const auto i = static_cast<std::size_t>(p);
          const std::vector<double> w = before.parameters[p].value().to_vector();
          std::vector<double> change = model.parameters[p].value().to_vector();
          for (std::size_t k = 0; k < w.size(); ++k) change[k] -= w[k];
          EXPECT_NEAR(found.weight_squares[i], square_sum(w), 1e-12 * square_sum(w));
          EXPECT_NEAR(found.update_squares[i], square_sum(change), 1e-9 * square_sum(change));
        }
        if (threads == 1) expected = found;
        EXPECT_EQ(found.weight_squares, expected.weight_squares) << threads << " threads";
        EXPECT_EQ(found.update_squares, expected.update_squares) << threads << " threads";
      }
    }
  }
}

TEST(Optimizer, MeasuresNothingOfWhatItLeavesAlone) {
  ParameterStore parameters;
  parameters.create("frozen", Array::from({2}, {1, 2})).set_frozen(true);
  parameters.create("untouched", Array::from({2}, {3, 4}));
  const std::vector<Array> gradients{Array::from({2}, {1, 1}), Array()};
  ThreadPool pool(1);
  UpdateStatistics found;
  make_optimizer(config_of("adamw", 0.1))->step(parameters, gradients, 1, 0.1, pool, &found);
  EXPECT_EQ(found.weight_squares, (std::vector<double>{0, 0}));
  EXPECT_EQ(found.update_squares, (std::vector<double>{0, 0}));
}

TEST(Optimizer, LeavesFrozenParametersAndThoseWithoutGradientAlone) {
  ParameterStore parameters;
  parameters.create("frozen", Array::from({2}, {1, 2})).set_frozen(true);
  parameters.create("untouched", Array::from({2}, {3, 4}));
  parameters.create("trained", Array::from({2}, {5, 6}));
  const std::vector<Array> gradients{Array::from({2}, {1, 1}), Array(), Array::from({2}, {1, 1})};
  ThreadPool pool(1);
  make_optimizer(config_of("adamw", 0.1))->step(parameters, gradients, 1, 0.1, pool);
  EXPECT_EQ(parameters[0].value().to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(parameters[1].value().to_vector(), (std::vector<double>{3, 4}));
  EXPECT_LT(parameters[2].value().at({0}), 5);
}

TEST(Optimizer, ASnapshotOfTheValueStaysAsItWas) {
  ParameterStore parameters;
  parameters.create("weight", Array::from({2}, {1, 2}));
  const Array snapshot = parameters[0].value();
  const Array g = Array::from({2}, {1, 1});
  ThreadPool pool(1);
  make_optimizer(config_of("sgd", 0))->step(parameters, std::span(&g, 1), 1, 0.5, pool);
  EXPECT_EQ(snapshot.to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ(parameters[0].value().to_vector(), (std::vector<double>{0.5, 1.5}));
}

TEST(Optimizer, RestoredStateContinuesBitwise) {
  for (const char* kind : {"adamw", "adam", "sgd"}) {
    ThreadPool pool(2);
    Model unbroken;
    Model resumed;
    const auto first = make_optimizer(config_of(kind, 0.1));
    for (int i = 0; i < 3; ++i) first->step(unbroken.parameters, unbroken.gradients, 1, 0.01, pool);

    const auto state = first->state(unbroken.parameters);  // held while `first` goes on
    for (std::int64_t p = 0; p < resumed.parameters.count(); ++p) {
      resumed.parameters[p].set_value(unbroken.parameters[p].value().clone());
    }
    const auto second = make_optimizer(config_of(kind, 0.1));
    second->restore(resumed.parameters, first->updates(), state);
    EXPECT_EQ(second->updates(), 3);
    for (int i = 0; i < 2; ++i) {
      first->step(unbroken.parameters, unbroken.gradients, 1, 0.01, pool);
      second->step(resumed.parameters, resumed.gradients, 1, 0.01, pool);
    }
    EXPECT_EQ(resumed.parameters.hash(), unbroken.parameters.hash()) << kind;
  }
}

TEST(Optimizer, StateNamesOneArrayAParameterAndMoment) {
  ParameterStore parameters;
  parameters.create("a.weight", Array::from({2, 3}, {1, 2, 3, 4, 5, 6}));
  parameters.create("b.weight", Array::from({2}, {1, 2})).set_frozen(true);
  const auto adam = make_optimizer(config_of("adamw", 0))->state(parameters);
  ASSERT_EQ(adam.size(), 2u);
  EXPECT_EQ(adam[0].first, "optim.m.a.weight");
  EXPECT_EQ(adam[1].first, "optim.v.a.weight");
  EXPECT_EQ(adam[1].second.shape(), (Shape{2, 3}));
  const auto sgd = make_optimizer(config_of("sgd", 0))->state(parameters);
  ASSERT_EQ(sgd.size(), 1u);
  EXPECT_EQ(sgd[0].first, "optim.m.a.weight");
}

template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

TEST(Optimizer, RestoreRefusesStateThatDoesNotFitAndStaysAsItWas) {
  ParameterStore parameters;
  parameters.create("w", Array::from({2}, {1, 2}));
  const auto optimizer = make_optimizer(config_of("sgd", 0));
  using State = std::vector<std::pair<std::string, Array>>;
  const auto restore = [&](const State& state) {
    return message_of<IoError>([&] { optimizer->restore(parameters, 9, state); });
  };
  EXPECT_EQ(restore({}), "optimizer state: optim.m.w is missing");
  EXPECT_EQ(restore({{"optim.m.w", Array::from({3}, {1, 2, 3})}}),
            "optimizer state: optim.m.w is float32 [3] but the parameter is float32 [2]");
  EXPECT_EQ(restore({{"optim.m.w", Array::from({2}, {1, 2}, DType::float64)}}),
            "optimizer state: optim.m.w is float64 [2] but the parameter is float32 [2]");
  EXPECT_EQ(
      restore({{"optim.m.w", Array::from({2}, {1, 2})}, {"optim.m.x", Array::from({1}, {1})}}),
      "optimizer state: optim.m.x belongs to no parameter");
  EXPECT_EQ(optimizer->updates(), 0);
  EXPECT_EQ(optimizer->state(parameters)[0].second.to_vector(), (std::vector<double>{0, 0}));
}

TEST(Optimizer, RefusesGradientsThatDoNotFitBeforeWriting) {
  ParameterStore parameters;
  parameters.create("a", Array::from({2}, {1, 2}));
  parameters.create("b", Array::from({2}, {1, 2}));
  const auto optimizer = make_optimizer(config_of("sgd", 0));
  ThreadPool pool(1);
  const std::vector<Array> gradients{Array::from({2}, {1, 1}), Array::from({3}, {1, 1, 1})};
  EXPECT_EQ(message_of<ShapeError>([&] { optimizer->step(parameters, gradients, 1, 0.1, pool); }),
            "optimizer: gradient float32 [3] does not fit b, float32 [2]");
  EXPECT_EQ(message_of<ShapeError>(
                [&] { optimizer->step(parameters, std::span(gradients).first(1), 1, 0.1, pool); }),
            "optimizer: 1 gradients for 2 parameters");
  EXPECT_EQ(parameters[0].value().to_vector(), (std::vector<double>{1, 2}));
}

TEST(Optimizer, CheckNamesTheOptionAndTheValue) {
  const auto error_of = [](const std::function<void(OptimizerConfig&)>& change) {
    OptimizerConfig config;
    change(config);
    return message_of<ConfigError>([&] { (void)make_optimizer(config); });
  };
  EXPECT_EQ(error_of([](OptimizerConfig&) {}), "");
  EXPECT_EQ(error_of([](OptimizerConfig& c) { c.beta1 = 1; }), "--beta1: 1 is not in [0, 1)");
  EXPECT_EQ(error_of([](OptimizerConfig& c) { c.beta2 = -0.1; }), "--beta2: -0.1 is not in [0, 1)");
  EXPECT_EQ(error_of([](OptimizerConfig& c) { c.eps = 0; }), "--eps: 0 is outside 1e-30 to 1e+06");
  EXPECT_EQ(error_of([](OptimizerConfig& c) { c.momentum = 1.5; }),
            "--momentum: 1.5 is not in [0, 1)");
  EXPECT_EQ(error_of([](OptimizerConfig& c) { c.weight_decay = -1; }),
            "--weight-decay: -1 is not a finite number of at least 0");
  EXPECT_EQ(
      error_of([](OptimizerConfig& c) { c.kind = "adamm"; }),
      "--optimizer: 'adamm' is unknown; did you mean adamw or adam? (known: adamw, adam, sgd)");
}

// Two steps of plain gradient descent on (w - 3)^2 / 2 from 1: the gradient is w - 3.
TEST(Optimizer, TakesTheGradientsOfATape) {
  ParameterStore parameters;
  Parameter& w = parameters.create("w", Array::from({1}, {1.0}, DType::float64));
  Parameter& untouched = parameters.create("untouched", Array::from({1}, {5.0}, DType::float64));
  const auto optimizer = make_optimizer({.kind = "sgd", .momentum = 0, .weight_decay = 0});
  for (const double expected : {1.2, 1.38}) {
    Tape tape;
    const Var leaf = tape.leaf(Array::from({1}, {3.0}, DType::float64));
    const Var error = tape.parameter(w) - leaf;
    optimizer->step(parameters, tape.backward(sum(error * error) * 0.5), 0.1);
    EXPECT_NEAR(w.value().item(), expected, 1e-15);
  }
  EXPECT_EQ(untouched.value().item(), 5);
  EXPECT_EQ(optimizer->updates(), 2);
}

TEST(Optimizer, RefusesGradientsOfAnotherStore) {
  ParameterStore parameters, other;
  Parameter& w = other.create("w", Array::from({1}, {1.0}, DType::float64));
  parameters.create("w", Array::from({1}, {1.0}, DType::float64));
  const auto optimizer = make_optimizer({.kind = "sgd"});
  Tape tape;
  const Gradients gradients = tape.backward(sum(tape.parameter(w)));
  EXPECT_THROW(optimizer->step(parameters, gradients, 0.1), UsageError);
  EXPECT_EQ(parameters[0].value().item(), 1);
}

}  // namespace attune::optimizer_test
