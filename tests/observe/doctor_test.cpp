#include "attune/observe/doctor.h"

#include <cmath>

#include "attune/autodiff/tape.h"
#include "attune/ops/arithmetic.h"
#include "attune/ops/reduce.h"
#include "attune/ops/shaping.h"
#include "train/tiny_run.h"

namespace attune::doctor_test {

// A healthy patient that a test may hurt.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    RunConfig config = tiny();
    config.model.n_layer = 2;
    config.model.n_embd = 16;
    config.schedule.lr = 1e-2;
    use(config);
  }
  void use(const RunConfig& config) {
    config_ = config.resolved();
    task_ = make_task(config_.task);
    config_.model = model_config(config_, *task_);
    factory_ = doctor_subject(config_, *task_).make_model;
  }
  DoctorReport examine() {
    return run_doctor({config_, *task_, factory_, hooks_}, {.seconds = 1000});
  }
  // The checks that fail, and what they advise.
  std::string failures() {
    std::string text;
    for (const DoctorRow& row : examine().rows) {
      if (row.verdict == DoctorVerdict::failed) text += row.check + ": " + row.advice + "\n";
    }
    return text;
  }

  RunConfig config_;
  std::unique_ptr<Task> task_;
  std::function<std::unique_ptr<Transformer>(std::uint64_t, DType)> factory_;
  Hooks* hooks_ = nullptr;
};

// A function of a value at one point of one layer.
class At final : public Hooks {
 public:
  At(HookPoint point, std::function<Var(const Var&)> f) : point_(point), f_(std::move(f)) {}
  Var at(HookPoint point, int layer, const Var& x) override {
    return point == point_ && layer <= 0 ? f_(x) : x;
  }

 private:
  HookPoint point_;
  std::function<Var(const Var&)> f_;
};

void expect_alone(const std::string& failures, const std::string& check, const std::string& what) {
  EXPECT_TRUE(failures.starts_with(check + ": ")) << failures;
  EXPECT_EQ(std::ranges::count(failures, '\n'), 1) << failures;
  EXPECT_NE(failures.find(what), std::string::npos) << failures;
}

TEST_F(DoctorTest, FindsNothingWrongWithAHealthyModel) {
  const DoctorReport report = examine();
  EXPECT_TRUE(report.passed()) << to_text(report);
  ASSERT_EQ(report.rows.size(), 8u);
  for (const DoctorRow& row : report.rows)
    EXPECT_EQ(row.verdict, DoctorVerdict::passed) << row.check;
  EXPECT_EQ(report.bounds, "") << report.bounds;
}

TEST_F(DoctorTest, NamesAParameterThatIsCutOffFromTheLoss) {
  // Other values, which depend on nothing.
  At cut(HookPoint::value, [](const Var& x) {
    std::vector<double> values(static_cast<std::size_t>(x.shape().size()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
    return Var(Array::from(x.shape(), values, x.dtype()));
  });
  hooks_ = &cut;
  expect_alone(failures(), "gradients", "no gradient reaches block.0.attention.value.weight:");
}

TEST_F(DoctorTest, NamesAFrozenParameter) {
  factory_ = [make = factory_](std::uint64_t seed, DType dtype) {
    auto model = make(seed, dtype);
    model->parameters().find("block.1.attention.key.weight")->set_frozen(true);
    return model;
  };
  EXPECT_NE(failures().find("no gradient reaches block.1.attention.key.weight (frozen):"),
            std::string::npos);
}

TEST_F(DoctorTest, CatchesAModelThatLooksAhead) {
  factory_ = [config = config_.model](std::uint64_t seed, DType dtype) {
    TransformerConfig open = config;
    open.mask = "none";
    return std::make_unique<Transformer>(open, seed, dtype);
  };
  expect_alone(failures(), "causality", "later tokens reach earlier logits");
}

TEST_F(DoctorTest, DoesNotExpectCausalityWhereTheMaskIsNotCausal) {
  RunConfig config = config_;
  config.model.mask = "none";
  use(config);
  const DoctorReport report = examine();
  EXPECT_EQ(report.rows[2].verdict, DoctorVerdict::skipped);
  EXPECT_NE(to_text(report).find("causality: --mask none"), std::string::npos);
}

TEST_F(DoctorTest, CatchesExamplesThatReachEachOther) {
  At mixing(HookPoint::residual_post, [](const Var& x) { return x + mean(x, 0, true) * 0.1; });
  hooks_ = &mixing;
  const std::string found = failures();
  EXPECT_NE(found.find("batch independence: examples of a batch reach each other"),
            std::string::npos)
      << found;
  EXPECT_EQ(found.find("gradient check"), std::string::npos) << found;
}

TEST_F(DoctorTest, CatchesABackwardThatIsWrong) {
  At wrong(HookPoint::ffn_hidden, [](const Var& x) {
    return record("wrong", {x}, x.value(), [](const Array& dy, InputGradients& dx) {
      dx.add(0, (Var(dy) * 1.001).value());
    });
  });
  hooks_ = &wrong;
  expect_alone(failures(), "gradient check", "block.0.ffn");
}

TEST_F(DoctorTest, CatchesAnInitialisationThatIsTooLarge) {
  RunConfig config = config_;
  config.model.init_std = 2;
  use(config);
  EXPECT_NE(failures().find("initial loss: the initialisation is too large"), std::string::npos);
}

TEST_F(DoctorTest, CatchesWeightsThatAreNotOfTheInitialisation) {
  RunConfig config = config_;
  config.model.tie_head = false;
  use(config);
  factory_ = [make = factory_](std::uint64_t seed, DType dtype) {
    auto model = make(seed, dtype);
    Parameter& head = *model->parameters().find("head.weight");
    head.set_value((Var(head.value()) * 10.0).value());
    return model;
  };
  EXPECT_NE(failures().find("initial loss: the model starts out sure and wrong"),
            std::string::npos);
}

TEST_F(DoctorTest, CatchesTrainingThatDoesNotLearn) {
  config_.schedule.lr = 1e-9;
  expect_alone(failures(), "overfitting", "--lr (now 1e-09)");
}

TEST_F(DoctorTest, CatchesACheckpointThatDoesNotFitItsModel) {
  factory_ = [config = config_.model, seed = config_.seed](std::uint64_t wanted, DType dtype) {
    TransformerConfig other = config;
    other.d_ff += wanted == static_cast<std::uint64_t>(seed) ? 0 : 1;
    return std::make_unique<Transformer>(other, wanted, dtype);
  };
  expect_alone(failures(), "checkpoint", "block.0.ffn");
}

TEST_F(DoctorTest, CatchesRunsThatCannotBeRepeated) {
  factory_ = [make = factory_, calls = std::uint64_t{0}](std::uint64_t, DType dtype) mutable {
    return make(++calls, dtype);
  };
  EXPECT_NE(failures().find("threads: runs cannot be repeated"), std::string::npos);
}

// A model that there is no time for: less of it is looked at, and the report says so.
TEST_F(DoctorTest, CutsWhatThereIsNoTimeFor) {
  const DoctorReport report = run_doctor({config_, *task_, factory_, nullptr}, {.seconds = 1e-3});
  EXPECT_NE(report.bounds.find("2 examples of"), std::string::npos) << report.bounds;
  EXPECT_NE(report.rows[5].figure.find("3 of "), std::string::npos) << report.rows[5].figure;
}

}  // namespace attune::doctor_test
