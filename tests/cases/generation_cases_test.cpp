#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "attune/ops/attention.h"
#include "attune/ops/norm.h"
#include "cli/run_binary.h"
#include "ops/attention_case.h"

// Kinds of fault that others reported, in generation and in the numerics of losses, norms and
// entropies (B18 to B25). Most stand with their operation.
namespace attune::generation_cases_test {

constexpr DType kTypes[] = {DType::float32, DType::float64};
constexpr AttentionForm kForms[] = {AttentionForm::stored, AttentionForm::tiled,
                                    AttentionForm::sparse};

TEST(SamplingCases, BadValuesAreUsageErrors) {  // B18
  const cli_test::Workspace space;
  for (const char* option : {"--temperature=nan", "--temperature=inf", "--temperature=-1e-9",
                             "--top-k=2.5", "--top-k=99999999999999999999", "--top-p=-0.1",
                             "--top-p=nan", "--top-p=", "--seed=-1", "--max-new-tokens=-1"}) {
    const cli_test::Result result = space.run({"sample", "run", option});
    const std::string name = std::string(option).substr(0, std::string(option).find('='));
    EXPECT_EQ(result.code, 2) << option;
    EXPECT_NE(result.err.find(name + ":"), std::string::npos) << result.err;
  }
  EXPECT_TRUE(space.entries().empty());
}

// The values of a LayerNorm over (40000, .., 40003), here as the sum of a residual and a branch.
TEST(LayerNormCases, ALargeMeanOfAResidualSumDoesNotCancel) {  // B22
  const ResidualNorm result = add_layer_norm(Array::full({1, 4}, 40000, DType::float32),
                                             Array::from({1, 4}, {0, 1, 2, 3}), Var(), Var());
  expect_near(result.sum.value(), {40000, 40001, 40002, 40003}, 0);
  expect_near(result.normalised.value(), {-1.341635, -0.447212, 0.447212, 1.341635}, 2e-6);
}

TEST(LayerNormCases, WidthOneGivesTheShiftAndNoGradient) {  // B22
  for (const DType dtype : kTypes) {
    const auto f = [](std::span<const Var> x) { return layer_norm(x[0], x[1], x[2]); };
    const std::vector<Array> inputs = {Array::from({3, 1}, {7, -2, 1e6}, dtype),
                                       Array::full({1}, 2, dtype), Array::full({1}, .5, dtype)};
    const std::vector<Var> constants(inputs.begin(), inputs.end());
    expect_near(f(constants).value(), {.5, .5, .5}, 0);
    const std::vector<Array> gradients =
        gradients_of(f, inputs, Array::from({3, 1}, {1, 5, -3}, dtype));
    expect_near(gradients[0], {0, 0, 0}, 0);
    expect_near(gradients[1], std::vector<double>{0}, 0);
    expect_near(gradients[2], std::vector<double>{3}, 0);
  }
}

// One head over zero queries; `bias` [query, key] becomes the scores.
HeadStatistics statistics_of(const Array& bias, const Mask& mask, AttentionForm form) {
  const std::int64_t query = bias.shape()[2], key = bias.shape()[3];
  std::vector<HeadStatistics> head(1);
  AttentionOptions options;
  options.mask = &mask;
  options.form = form;
  options.statistics = head;
  (void)attention(Array::zeros({1, query, 1}, bias.dtype()),
                  Array::zeros({1, key, 1}, bias.dtype()), Array::zeros({1, key, 1}, bias.dtype()),
                  bias, options);
  return head[0];
}

// Rows of 1, 2, 3 and 4 equal keys: entropies 0, ln 2, ln 3, ln 4. The first has no choice.
TEST(EntropyCases, TheMeanIsOverRowsThatHaveAChoice) {  // B25
  for (const AttentionForm form : kForms) {
    for (const DType dtype : kTypes) {
      const HeadStatistics head =
          statistics_of(Array::zeros({1, 1, 4, 4}, dtype), Mask::causal(), form);
      EXPECT_NEAR(head.entropy_nats(), 1.059351, 1e-6);
      EXPECT_NEAR(head.entropy_norm(), 1, 1e-6);
      EXPECT_EQ(head.rows_single, 1);
      EXPECT_EQ(head.rows_valid, 3);
    }
  }
}

// e^-1000 is 0 in either type: 0 ln 0 adds nothing, and no 1e-8 stands in a logarithm.
TEST(EntropyCases, AWeightOfZeroAddsNothing) {  // B25
  for (const AttentionForm form : kForms) {
    for (const DType dtype : kTypes) {
      const double tolerance = dtype == DType::float32 ? 1.2e-7 : 1e-12;
      const auto entropy = [&](std::initializer_list<double> scores) {
        const HeadStatistics head =
            statistics_of(Array::from({1, 1, 1, 3}, scores, dtype), Mask::none(), form);
        EXPECT_EQ(head.violations, 0);
        return head.entropy_nats();
      };
      EXPECT_NEAR(entropy({0, 0, -1000}), std::log(2.0), tolerance);
      EXPECT_EQ(entropy({0, -1000, -1000}), 0);
    }
  }
}

TEST(EntropyCases, ARowWithoutAKeyIsInNoMean) {  // B25
  const Mask mask = Mask::custom(1, 1, 3, 3, {1, 1, 0, 0, 0, 0, 1, 1, 1});
  for (const AttentionForm form : kForms) {
    for (const DType dtype : kTypes) {
      const HeadStatistics head = statistics_of(Array::zeros({1, 1, 3, 3}, dtype), mask, form);
      EXPECT_NEAR(head.entropy_nats(), (std::log(2.0) + std::log(3.0)) / 2, 1e-6);
      EXPECT_EQ(head.rows_empty, 1);
      EXPECT_EQ(head.rows_valid, 2);
    }
  }
}

}  // namespace attune::generation_cases_test
