#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "attune/nn/multi_head_attention.h"
#include "attune/ops/reduce.h"
#include "attune/ops/unary.h"
#include "cli/run_binary.h"
#include "model/model_test.h"
#include "ops/attention_case.h"

// Kinds of fault that others reported, in attention and its masks (B01 to B09). Most stand with
// their operation or layer, with the same numbers in their comments; here is what spans several.
namespace attune::attention_cases_test {

constexpr DType kTypes[] = {DType::float32, DType::float64};
constexpr AttentionForm kForms[] = {AttentionForm::stored, AttentionForm::tiled,
                                    AttentionForm::sparse};

TEST(MaskCases, AFullyMaskedRowIsZeroAndCountedInEveryForm) {  // B01
  const Mask mask = Mask::custom(1, 1, 2, 2, {1, 1, 0, 0});
  for (const AttentionForm form : kForms) {
    for (const DType dtype : kTypes) {
      std::vector<HeadStatistics> head(1);
      AttentionOptions options;
      options.mask = &mask;
      options.scale = 1;
      options.form = form;
      options.statistics = head;
      const auto f = [&](std::span<const Var> x) {
        return attention(x[0], x[1], x[2], {}, options);
      };
      const std::vector<Array> inputs = {column({1, 1}, dtype), column({1, 2}, dtype),
                                         column({3, 5}, dtype)};
      const std::vector<Var> constants(inputs.begin(), inputs.end());
      expect_near(f(constants).value(), {4.462117, 0}, 1e-6);
      EXPECT_EQ(head[0].rows_empty, 1);
      for (const double weight_of_empty_row : {0.0, 1.0}) {
        const std::vector<Array> gradients =
            gradients_of(f, inputs, column({1, weight_of_empty_row}, dtype));
        // The cases' 1e-5 relative in float32, of the smallest number here.
        const double tolerance = dtype == DType::float32 ? 2.6e-6 : 1e-6;
        expect_near(gradients[0], {.393224, 0}, tolerance);
        expect_near(gradients[1], {-.393224, .393224}, tolerance);
        expect_near(gradients[2], {.268941, .731059}, tolerance);
      }
    }
  }
}

// What masked rows spoiled in the reports were the gradients of weights that all rows share.
TEST(MaskCases, AnExampleOfPaddingAloneLeavesSharedWeightsAlone) {  // B01
  Bench bench;
  const auto none = make_positional_encoding("none", bench.root / "position", {}, bench.init);
  const MultiHeadAttention layer(bench.root / "attention", {.model = 6, .heads = 2, .head_dim = 3},
                                 *none, bench.init, 0);
  randomize(bench.store);
  const auto gradients = [&](const Array& x, const Mask& mask) {
    Tape tape;
    Pass pass;
    pass.tape = &tape;
    pass.mask = &mask;
    const Gradients all = tape.backward(sum(square(layer(x, {}, pass))));
    std::vector<Array> result;
    for (const Parameter& parameter : bench.store) result.push_back(all[parameter]);
    return result;
  };
  const Array x = random_array({2, 4, 6}, 1);
  const auto both = gradients(x, Mask::key_padding(2, {1, 1, 1, 1, 0, 0, 0, 0}));
  const auto alone = gradients(rows_of(x, 0, 1), Mask::none());
  for (std::size_t i = 0; i < alone.size(); ++i) expect_near(both[i], alone[i], 1e-12);
}

// A mask of "most negative" numbers added to the scores beside our own causal mask: three pads on
// the left, values 1 to 5. Whatever the number, what it drops has weight 0 beside a key it keeps;
// rows that see nothing but -infinity are empty.
TEST(MaskCases, PaddingAddedToTheScoresNeitherOverflowsNorCountsTwice) {  // B03
  const Mask causal = Mask::causal();
  const double lowest = std::numeric_limits<float>::lowest();
  for (const double drop : {-1e4, -1e9, lowest, -kInfinity}) {
    for (const double score : {0.0, -1e38}) {
      // Beside a score of -1e38 a smaller number is lost by rounding, and drops nothing.
      if (score != 0 && drop > lowest) continue;
      for (const DType dtype : kTypes) {
        for (const int form : {0, 1, 2}) {  // stored, tiled, textbook
          SCOPED_TRACE(testing::Message() << drop << " " << score << " " << form);
          std::vector<double> added;
          for (int row = 0; row < 5; ++row) added.insert(added.end(), {drop, drop, drop, 0, 0});
          AttentionOptions options;
          options.mask = &causal;
          options.scale = 1;
          if (form < 2) options.form = kForms[form];
          const auto f = [&](std::span<const Var> x) {
            return form == 2 ? attention_textbook(x[0], x[1], x[2], x[3], options)
                             : attention(x[0], x[1], x[2], x[3], options);
          };
          const std::vector<Array> inputs = {
              Array::full({1, 5, 1}, score, dtype), Array::full({1, 5, 1}, 1, dtype),
              column({1, 2, 3, 4, 5}, dtype), Array::from({1, 1, 5, 5}, added, dtype)};
          const std::vector<Var> constants(inputs.begin(), inputs.end());
          const std::vector<double> y = f(constants).value().to_vector();
          EXPECT_EQ(y[3], 4);
          EXPECT_EQ(y[4], 4.5);
          for (const double value : y) EXPECT_TRUE(std::isfinite(value)) << value;
          if (drop == -kInfinity) {
            EXPECT_EQ(y[0], 0);
            EXPECT_EQ(y[2], 0);
          }
          if (score != 0) continue;
          for (const Array& gradient : gradients_of(f, inputs))
            for (const double value : gradient.to_vector()) EXPECT_TRUE(std::isfinite(value));
        }
      }
    }
  }
}

// Values that are the unit vectors make the output the weights themselves.
TEST(MaskCases, WeightsOfARowSumToOneAndThoseOnPaddingAreExactlyZero) {  // B04
  const Mask mask = Mask::key_padding(2, {1, 1, 0, 1, 0, 0});
  const Array identity =
      Array::from({2, 3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  for (const AttentionForm form : kForms) {
    AttentionOptions options;
    options.mask = &mask;
    options.form = form;
    const Array weights =
        attention(random_array({2, 3, 5}, 1, DType::float32),
                  random_array({2, 3, 5}, 2, DType::float32), identity, {}, options)
            .value();
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_NEAR(weights.at({0, row, 0}) + weights.at({0, row, 1}), 1, 1e-6);
      EXPECT_EQ(weights.at({0, row, 2}), 0);
      EXPECT_EQ(weights.at({1, row, 0}), 1);
      EXPECT_EQ(weights.at({1, row, 1}), 0);
      EXPECT_EQ(weights.at({1, row, 2}), 0);
    }
  }
}

TEST(MaskCases, UnderNoEncodingALogitSeesTheFutureAndAllSeeThePast) {  // B06
  for (const EncodingInfo& encoding : list_encodings()) {
    SCOPED_TRACE(encoding.name);
    TransformerConfig config = small_config();
    config.positions = encoding.name;
    const Transformer model = random_model(config, DType::float32);
    const std::vector<std::int32_t> tokens = random_tokens(6);
    const auto with_change_at = [&](std::size_t place) {
      std::vector<std::int32_t> changed = tokens;
      changed[place] = (changed[place] + 1) % 11;
      return logits_of(model, changed);
    };
    const Array before = logits_of(model, tokens);
    EXPECT_TRUE(bitwise_equal(columns_of(with_change_at(4), 0, 4), columns_of(before, 0, 4)));
    const Array first_changed = with_change_at(0);
    for (std::int64_t t = 0; t < 6; ++t) {
      EXPECT_GT(distance(columns_of(first_changed, t, t + 1), columns_of(before, t, t + 1)), 0)
          << t;
    }
  }
}

TEST(DropoutCases, ARateThatIsNoneIsAUsageError) {  // B09
  const cli_test::Workspace space;
  for (const char* option : {"--dropout", "--attn-dropout"}) {
    for (const char* rate : {"-0.1", "1.5", "nan"}) {
      const cli_test::Result result =
          space.run({"train", "copy", std::string(option) + "=" + rate});
      EXPECT_EQ(result.code, 2);
      EXPECT_NE(result.err.find(option), std::string::npos) << result.err;
      EXPECT_NE(result.err.find(rate), std::string::npos) << result.err;
    }
  }
  EXPECT_TRUE(space.entries().empty());
}

// 1 / (1 - p) is infinite there.
TEST(DropoutCases, ARateOfOneTrainsWithoutNaN) {  // B09
  const cli_test::Workspace space;
  cli_test::Words words = cli_test::tiny_run("run");
  words[14] = "--dropout=1";
  ASSERT_EQ(space.run(words).code, 0);
  for (const nlohmann::json& line : space.log("run/metrics.jsonl")) {
    EXPECT_FALSE(line.contains("nonfinite")) << line;
  }
}

}  // namespace attune::attention_cases_test
